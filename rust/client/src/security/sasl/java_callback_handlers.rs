//! Java's classes for logins: those that are known stand for what this client does anyway, others are refused. None is
//! ever loaded.

use crate::config::{Mechanism, SaslOptions};
use crate::error::{Error, Result};

const BEARER: &str = "org.apache.kafka.common.security.oauthbearer.";
/// The option, the end of the class's name, and the mechanism that it is for.
const KNOWN: &[(&str, &str, Mechanism)] = &[
    (LOGIN, "oauthbearer.OAuthBearerLoginCallbackHandler", Mechanism::OAuthBearer),
    (LOGIN, "oauthbearer.secured.OAuthBearerLoginCallbackHandler", Mechanism::OAuthBearer),
    (LOGIN, "oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler", Mechanism::OAuthBearer),
    (CLIENT, "oauthbearer.internals.OAuthBearerSaslClientCallbackHandler", Mechanism::OAuthBearer),
    (CLIENT, "software.amazon.msk.auth.iam.IAMClientCallbackHandler", Mechanism::AwsMskIam),
];
const LOGIN: &str = "sasl.login.callback.handler.class";
const CLIENT: &str = "sasl.client.callback.handler.class";
/// Databricks and MSK's own jar have them under names of their own.
const SHADES: [&str; 2] = ["kafkashaded.", "shadedmskiam."];

/// # Errors
/// A class that is not known, or that is for another mechanism.
pub(super) fn check(sasl: &SaslOptions) -> Result<()> {
    for (option, given) in [(LOGIN, &sasl.login_callback_handler), (CLIENT, &sasl.client_callback_handler)] {
        let Some(class) = given else { continue };
        let plain = SHADES.iter().find_map(|shade| class.strip_prefix(shade)).unwrap_or(class);
        let found = KNOWN.iter().find(|(of, name, _)| {
            let whole =
                if name.starts_with("oauthbearer.") { BEARER.replace("oauthbearer.", name) } else { (*name).into() };
            *of == option && whole == plain
        });
        match found {
            Some((_, _, mechanism)) if *mechanism == sasl.mechanism => {}
            Some((_, _, mechanism)) => {
                let (wanted, is) = (mechanism.name(), sasl.mechanism.name());
                let text = format!("option {option}: that class is for sasl.mechanism={wanted}, which is {is}");
                return Err(Error::configuration(text));
            }
            None => {
                return Err(Error::configuration(format!(
                    "option {option}={class:?} is not a class that this client knows, and classes are never loaded: omit \
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

    fn check_of(given: &[(&str, &str)]) -> Result<()> {
        let fixed = [("bootstrap.servers", "h:1"), ("security.protocol", "SASL_SSL")];
        let given = fixed.iter().chain(given);
        let given = given.map(|(name, value)| ((*name).to_owned(), OptionValue::Str((*value).to_owned())));
        let options = Options::parse(ClientKind::Producer, given).unwrap();
        check(options.common.security.sasl.as_ref().unwrap())
    }

    #[test]
    fn classes_are_names_that_are_known_or_errors() {
        let oauth = ("sasl.mechanism", "OAUTHBEARER");
        for (mechanism, option, class, wanted) in [
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
            let found = check_of(&[("sasl.mechanism", mechanism), (option, class)]).map_err(|error| error.to_string());
            match wanted {
                None => assert_eq!(found, Ok(())),
                Some(wanted) => assert!(found.clone().unwrap_err().contains(wanted), "{found:?}"),
            }
        }
        assert_eq!(check_of(&[oauth]), Ok(()));
    }
}
