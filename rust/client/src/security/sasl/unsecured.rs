//! Unsecured tokens, which the client creates without a signature. They are for test brokers that accept any token.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use crate::config::credentials::{Fetching, Token, TokenSource, jwt};
use crate::error::{Error, Result};

/// Prefix of these settings in Java's JAAS configuration.
const JAAS_PREFIX: &str = "unsecuredLogin";
/// Default lifetime of a token, as in librdkafka and Java's client.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(3600);

/// Claims, lifetime and extensions of the tokens to create.
#[derive(Debug, PartialEq)]
pub(super) struct Unsecured {
    claims: Map<String, Value>,
    lifetime: Duration,
    extensions: Vec<(String, String)>,
}

impl Unsecured {
    /// Parses librdkafka's `sasl.oauthbearer.config`: `principal=admin scope=read,write lifeSeconds=600 extension_a=b`.
    ///
    /// # Errors
    /// Fails if a name is unknown or the principal is missing.
    pub(super) fn from_config(config: &str) -> Result<Self> {
        let error = |text: String| Error::configuration(format!("option sasl.oauthbearer.config: {text}"));
        let (mut principal, mut principal_claim) = (None, "sub");
        let (mut scope, mut scope_claim) = (None, "scope");
        let (mut lifetime, mut extensions) = (DEFAULT_LIFETIME, Vec::new());
        for pair in config.split_whitespace() {
            let (name, value) = pair.split_once('=').filter(|(_, value)| !value.is_empty()).ok_or_else(|| {
                error("it must be name=value, separated by spaces, as principal=admin scope=read".to_owned())
            })?;
            match name {
                "principal" => principal = Some(value),
                "principalClaimName" => principal_claim = value,
                "scope" => scope = Some(value),
                "scopeClaimName" => scope_claim = value,
                "lifeSeconds" => lifetime = seconds(value).ok_or_else(|| error(format!("lifeSeconds={value}")))?,
                _ => match name.strip_prefix("extension_") {
                    Some(name) => extensions.push((name.to_owned(), value.to_owned())),
                    None => {
                        return Err(error(format!(
                            "{name:?} is not one of principal, principalClaimName, scope, scopeClaimName, lifeSeconds and \
                             extension_NAME"
                        )));
                    }
                },
            }
        }
        let principal = principal.ok_or_else(|| error("principal=NAME is missing".to_owned()))?;
        let mut claims = Map::from_iter([(principal_claim.to_owned(), principal.into())]);
        if let Some(scope) = scope {
            claims.insert(scope_claim.to_owned(), split_list(scope, ','));
        }
        Self { claims, lifetime, extensions }.validate(principal_claim)
    }

    /// Parses the options of Java's `OAuthBearerLoginModule`, without their prefix `unsecuredLogin`.
    ///
    /// # Errors
    /// Fails if an option is unknown or a claim is invalid.
    pub(super) fn from_jaas(options: &[(String, String)]) -> Result<Self> {
        let error =
            |name: &str, text: &str| Error::configuration(format!("option {JAAS_PREFIX}{name} of the login {text}"));
        let mut claims = Map::new();
        let (mut principal, mut lifetime, mut extensions) = ("sub", DEFAULT_LIFETIME, Vec::new());
        for (name, value) in options {
            if let Some(claim) = name.strip_prefix("StringClaim_") {
                claims.insert(claim.to_owned(), value.as_str().into());
            } else if let Some(claim) = name.strip_prefix("NumberClaim_") {
                let number = value.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
                claims.insert(claim.to_owned(), Value::Number(number.ok_or_else(|| error(name, "is no number"))?));
            } else if let Some(claim) = name.strip_prefix("ListClaim_") {
                // As in Java, the first character of the value is the separator of the list.
                let separator = value.chars().next().ok_or_else(|| error(name, "is empty"))?;
                claims.insert(claim.to_owned(), split_list(value.get(separator.len_utf8()..).unwrap_or(""), separator));
            } else if let Some(extension) = name.strip_prefix("Extension_") {
                extensions.push((extension.to_owned(), value.to_owned()));
            } else {
                match name.as_str() {
                    "PrincipalClaimName" => principal = value,
                    "ScopeClaimName" => {}
                    "LifetimeSeconds" => {
                        lifetime = seconds(value).ok_or_else(|| error(name, "is no time in seconds"))?
                    }
                    _ => return Err(error(name, "is not known")),
                }
            }
        }
        Self { claims, lifetime, extensions }.validate(principal)
    }

    fn validate(self, principal: &str) -> Result<Self> {
        if self.claims.get(principal).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(Error::configuration(format!(
                "an unsecured token needs its principal, the claim {principal:?}: set it by sasl.oauthbearer.config or, \
                 in sasl.jaas.config, by {JAAS_PREFIX}StringClaim_{principal}"
            )));
        }
        // Creates a token so that invalid extensions are reported here and not at the first login.
        self.token().map(|_| self)
    }

    fn token(&self) -> Result<Token> {
        let now = SystemTime::now();
        let header = Map::from_iter([("alg".to_owned(), "none".into())]);
        let mut claims = self.claims.clone();
        claims.entry("iat").or_insert_with(|| jwt::seconds_of(now).into());
        claims.entry("exp").or_insert_with(|| jwt::seconds_of(now + self.lifetime).into());
        let token = Token::new(jwt::signed(&jwt::unsigned(&header, &claims), &[]), None);
        let token = token.and_then(|token| token.with_extensions(self.extensions.clone()));
        token.map_err(|text| Error::configuration(format!("an unsecured token cannot be made: {text}")))
    }
}

fn seconds(text: &str) -> Option<Duration> {
    let days = 100 * 365 * 24 * 3600;
    text.parse().ok().filter(|seconds| (1..=days).contains(seconds)).map(Duration::from_secs)
}

fn split_list(text: &str, separator: char) -> Value {
    text.split(separator).filter(|part| !part.is_empty()).collect::<Vec<_>>().into()
}

impl TokenSource for Unsecured {
    fn name(&self) -> String {
        "unsecured tokens".to_owned()
    }

    fn fetch(&self) -> Fetching<'_> {
        Box::pin(std::future::ready(self.token()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(source: &Unsecured) -> Map<String, Value> {
        let token = source.token().unwrap();
        assert!(token.value.reveal().ends_with('.'), "unsigned");
        jwt::claims(token.value.reveal()).unwrap()
    }

    #[test]
    fn parses_librdkafka_settings() {
        let config =
            "principalClaimName=azp principal=admin scopeClaimName=roles scope=a,b lifeSeconds=600 extension_id=7";
        let source = Unsecured::from_config(config).unwrap();
        let claims = claims(&source);
        assert_eq!((claims["azp"].as_str(), claims["roles"].as_array().map(Vec::len)), (Some("admin"), Some(2)));
        assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 600);
        assert_eq!(source.token().unwrap().extensions, vec![("id".to_owned(), "7".to_owned())]);
        for (invalid, reason) in [
            ("", "principal=NAME is missing"),
            ("principal=", "must be name=value"),
            ("principle=a", "\"principle\" is not one of principal"),
            ("principal=a lifeSeconds=0", "lifeSeconds=0"),
            ("principal=a extension_auth=x", "cannot have the name auth"),
        ] {
            let error = Unsecured::from_config(invalid).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn parses_java_settings() {
        let parse = |options: &[(&str, &str)]| {
            let options: Vec<_> =
                options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Unsecured::from_jaas(&options)
        };
        let source = parse(&[
            ("StringClaim_sub", "alice"),
            ("ListClaim_scope", ",read,write"),
            ("NumberClaim_level", "3"),
            ("Extension_traceId", "t1"),
            ("LifetimeSeconds", "60"),
        ]);
        let claims = claims(&source.unwrap());
        assert_eq!((claims["sub"].as_str(), claims["level"].as_f64()), (Some("alice"), Some(3.0)));
        assert_eq!(claims["scope"], split_list("read,write", ','));
        for (invalid, reason) in [
            (("LifetimeSeconds", "60"), "needs its principal, the claim \"sub\""),
            (("NumberClaim_a", "x"), "unsecuredLoginNumberClaim_a of the login is no number"),
            (("ListClaim_a", ""), "is empty"),
            (("Foo", "x"), "is not known"),
        ] {
            let error = parse(&[invalid]).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
