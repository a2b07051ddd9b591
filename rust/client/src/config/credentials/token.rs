//! Tokens for OAUTHBEARER, and the sources that supply them.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use super::jwt;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Maximum length of a token. Brokers accept requests of up to 512 KiB before a login has succeeded, and the request
/// also contains the extensions.
const MAX_LENGTH: usize = 480 << 10;
/// Maximum expiry in seconds, in the year 5138. Larger numbers are probably milliseconds.
const MAX_UNIX_SECONDS: f64 = 1e11;

/// A token, as its source has supplied it.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    pub(crate) value: Secret,
    pub(crate) expires: Option<SystemTime>,
    pub(crate) extensions: Vec<(String, String)>,
}

/// Future of a token that a source fetches.
pub type Fetching<'a> = Pin<Box<dyn Future<Output = Result<Token>> + Send + 'a>>;

/// Source of tokens.
pub trait TokenSource: Debug + Send + Sync {
    /// Returns the name of the source, for error texts.
    fn name(&self) -> String;

    /// Requests a new token. Errors must not contain secrets.
    fn fetch(&self) -> Fetching<'_>;

    /// Returns the error of the last attempt, if a request is still in progress and is being retried.
    fn last_error(&self) -> Option<Error> {
        None
    }
}

/// A token source supplied by the application.
#[derive(Debug, Clone)]
pub struct Provider(pub Arc<dyn TokenSource>);

impl Token {
    /// Creates a token that expires at the time in its `exp` claim or, without that claim, at `expires`. A token
    /// without a known expiry is used for a single login.
    ///
    /// # Errors
    /// Returns the reason why the text is not a valid token. The reason does not contain the token.
    pub fn new(value: String, expires: Option<SystemTime>) -> std::result::Result<Self, String> {
        let value = Secret::from(value);
        let text = value.reveal();
        if text.is_empty() {
            return Err("the token is empty".to_owned());
        }
        if text.len() > MAX_LENGTH {
            return Err(format!("the token has {} bytes; brokers take no more than {MAX_LENGTH}", text.len()));
        }
        // RFC 6750 allows only these characters (b64token). Other characters could end the token within the SASL
        // message and begin another field.
        if let Some(wrong) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || "-._~+/=".contains(*c))) {
            return Err(format!("the token has the character {wrong:?}, which tokens cannot have"));
        }
        let own_expiry = jwt::claims(text).and_then(|claims| jwt::claim_time(&claims, "exp"));
        Ok(Self { expires: own_expiry.or(expires), value, extensions: Vec::new() })
    }

    /// Creates a token that expires at `until`, in seconds since 1970, or, without `until`, at the time in its `exp`
    /// claim.
    ///
    /// # Errors
    /// Fails like [`Self::new`], and if `until` is out of range.
    pub fn until_seconds(value: String, until: Option<f64>) -> std::result::Result<Self, String> {
        let token = Self::new(value, None)?;
        let Some(until) = until else { return Ok(token) };
        if until > MAX_UNIX_SECONDS {
            return Err(format!(
                "the token's expiry, {until}, is not a Unix timestamp in seconds: is it in milliseconds?"
            ));
        }
        let expires = jwt::from_unix_seconds(until);
        let expires =
            expires.ok_or_else(|| format!("the token's expiry, {until}, is not a Unix timestamp in seconds"))?;
        Ok(Self { expires: Some(expires), ..token })
    }

    /// Adds extensions to the token. An extension replaces an existing one of the same name.
    ///
    /// # Errors
    /// Fails if a name or a value is not allowed.
    pub fn with_extensions(mut self, extensions: Vec<(String, String)>) -> std::result::Result<Self, String> {
        for (name, value) in extensions {
            check_extension(&name, &value)?;
            self.extensions.retain(|(other, _)| *other != name);
            self.extensions.push((name, value));
        }
        Ok(self)
    }

    /// # Errors
    /// Fails with [`Error::Authentication`] if the token has already expired.
    pub(crate) fn check_expiry(self, source: &str) -> Result<Self> {
        let age = self.expires.and_then(|expires| SystemTime::now().duration_since(expires).ok());
        let Some(age) = age else { return Ok(self) };
        let text = format!(
            "the token had ended {} s before it was fetched: is the clock of this machine or of the issuer wrong, or a \
             length given where the end belongs?",
            age.as_secs()
        );
        Err(Error::authentication(source, text))
    }
}

/// Checks that RFC 7628, section 3.1, allows the name and value of an extension, as Kafka's brokers do.
pub(crate) fn check_extension(name: &str, value: &str) -> std::result::Result<(), String> {
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphabetic()) {
        return Err(format!("the name of extension {name:?} must be letters"));
    }
    if name == "auth" {
        return Err("an extension cannot have the name auth, which is the token's own".to_owned());
    }
    if value.is_empty() || !value.chars().all(|c| matches!(c, ' '..='~' | '\t' | '\r' | '\n')) {
        return Err(format!("the value of extension {name} must be ASCII text"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use serde_json::Map;

    use super::*;

    #[test]
    fn rejects_invalid_tokens_without_revealing_them() {
        for (wrong, reason) in [
            ("", "the token is empty"),
            ("tok en", "has the character ' '"),
            ("token\u{1}auth=x", "has the character '\\u{1}'"),
            ("token\n", "has the character '\\n'"),
            ("tökn", "has the character 'ö'"),
        ] {
            let error = Token::new(wrong.to_owned(), None).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let error = Token::new("a".repeat(MAX_LENGTH + 1), None).unwrap_err();
        assert!(error.contains("491521 bytes") && error.len() < 100, "{error}");
        let token = Token::new("secret".to_owned(), None).unwrap();
        assert!(!format!("{token:?}").contains("secret"));
    }

    #[test]
    fn validates_extensions_as_brokers_do() {
        let token = Token::new("t".to_owned(), None).unwrap();
        let pair = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let token = token.with_extensions(pair("logicalCluster", "lkc-1")).unwrap();
        let token = token.with_extensions(pair("logicalCluster", "lkc-2")).unwrap();
        assert_eq!(token.extensions, pair("logicalCluster", "lkc-2"));
        for (name, value) in [("", "x"), ("a1", "x"), ("auth", "x"), ("a", ""), ("a", "x\u{1}y=z"), ("a", "ä")] {
            assert!(token.clone().with_extensions(pair(name, value)).is_err(), "{name:?} {value:?}");
        }
    }

    #[test]
    fn expiry_is_read_from_the_token() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let claims = Map::from_iter([("exp".to_owned(), 5000.into())]);
        let jwt = jwt::signed(&jwt::unsigned(&Map::new(), &claims), b"x");
        assert_eq!(Token::new(jwt.clone(), Some(at(9000))).unwrap().expires, Some(at(5000)));
        assert_eq!(Token::new("opaque".to_owned(), Some(at(9000))).unwrap().expires, Some(at(9000)));
        assert_eq!(Token::new("opaque".to_owned(), None).unwrap().expires, None);
        assert_eq!(Token::until_seconds(jwt.clone(), Some(4000.0)).unwrap().expires, Some(at(4000)));
        assert_eq!(Token::until_seconds(jwt.clone(), None).unwrap().expires, Some(at(5000)));
        for (wrong, reason) in [
            (-1.0, "is not a Unix timestamp"),
            (f64::NAN, "is not a Unix timestamp"),
            (1.7e12, "is it in milliseconds?"),
        ] {
            let error = Token::until_seconds(jwt.clone(), Some(wrong)).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
