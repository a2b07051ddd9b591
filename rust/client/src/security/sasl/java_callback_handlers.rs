//! Java callback handler classes. Classes whose behaviour is built into this client are accepted by name, and all other
//! classes are rejected. No class is ever loaded.

use crate::config::{Mechanism, SaslOptions};
use crate::error::{Error, Result};

const BEARER: &str = "org.apache.kafka.common.security.oauthbearer.";
/// Option, last part of the class name, and the mechanism that the class belongs to.
const KNOWN: &[(&str, &str, Mechanism)] = &[
    (LOGIN, "oauthbearer.OAuthBearerLoginCallbackHandler", Mechanism::OAuthBearer),
    (LOGIN, "oauthbearer.secured.OAuthBearerLoginCallbackHandler", Mechanism::OAuthBearer),
    (LOGIN, "oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler", Mechanism::OAuthBearer),
    (CLIENT, "oauthbearer.internals.OAuthBearerSaslClientCallbackHandler", Mechanism::OAuthBearer),
    (CLIENT, "software.amazon.msk.auth.iam.IAMClientCallbackHandler", Mechanism::AwsMskIam),
];
const LOGIN: &str = "sasl.login.callback.handler.class";
const CLIENT: &str = "sasl.client.callback.handler.class";
/// Package prefixes of the classes as relocated by Databricks and in MSK's jar.
const SHADED_PREFIXES: [&str; 2] = ["kafkashaded.", "shadedmskiam."];

/// # Errors
/// Fails if a class is unknown or belongs to another mechanism.
pub(super) fn check(sasl: &SaslOptions) -> Result<()> {
    for (option, class) in [(LOGIN, &sasl.login_callback_handler), (CLIENT, &sasl.client_callback_handler)] {
        let Some(class) = class else { continue };
        let unshaded = SHADED_PREFIXES.iter().find_map(|prefix| class.strip_prefix(prefix)).unwrap_or(class);
        let known = KNOWN.iter().find(|(known_option, name, _)| {
            let full_name =
                if name.starts_with("oauthbearer.") { BEARER.replace("oauthbearer.", name) } else { (*name).into() };
            *known_option == option && full_name == unshaded
        });
        match known {
            Some((_, _, mechanism)) if *mechanism == sasl.mechanism => {}
            Some((_, _, mechanism)) => {
                let (required, configured) = (mechanism.name(), sasl.mechanism.name());
                let text =
                    format!("option {option}: that class is for sasl.mechanism={required}, but it is {configured}");
                return Err(Error::configuration(text));
            }
            None => {
                return Err(Error::configuration(format!(
                    "option {option}={class:?} is not a supported class, and classes are never loaded: omit \
                     it; supply your own tokens with sasl.oauthbearer.token.provider, in Python"
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ClientKind, OptionValue, Options};

    fn check_options(settings: &[(&str, &str)]) -> Result<()> {
        let fixed = [("bootstrap.servers", "h:1"), ("security.protocol", "SASL_SSL")];
        let settings = fixed.iter().chain(settings);
        let settings = settings.map(|(name, value)| ((*name).to_owned(), OptionValue::Str((*value).to_owned())));
        let options = Options::parse(ClientKind::Producer, settings).unwrap();
        check(options.common.security.sasl.as_ref().unwrap())
    }

    #[test]
    fn accepts_known_classes_only() {
        let oauth = ("sasl.mechanism", "OAUTHBEARER");
        for (mechanism, option, class, expected) in [
            (
                "OAUTHBEARER",
                LOGIN,
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
                None,
            ),
            (
                "OAUTHBEARER",
                LOGIN,
                "kafkashaded.org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
                None,
            ),
            ("AWS_MSK_IAM", CLIENT, "shadedmskiam.software.amazon.msk.auth.iam.IAMClientCallbackHandler", None),
            (
                "PLAIN",
                CLIENT,
                "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
                Some("is for sasl.mechanism=AWS_MSK_IAM"),
            ),
            (
                "OAUTHBEARER",
                LOGIN,
                "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
                Some("classes are never loaded"),
            ),
            ("OAUTHBEARER", LOGIN, "com.example.Mine", Some("classes are never loaded")),
        ] {
            let result =
                check_options(&[("sasl.mechanism", mechanism), (option, class)]).map_err(|error| error.to_string());
            match expected {
                None => assert_eq!(result, Ok(())),
                Some(expected) => assert!(result.clone().unwrap_err().contains(expected), "{result:?}"),
            }
        }
        assert_eq!(check_options(&[oauth]), Ok(()));
    }
}
