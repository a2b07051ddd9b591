//! A token for OAUTHBEARER, and where it comes from.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use super::jwt;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Brokers take 512 KiB before a login is through; the rest is for extensions.
const LONGEST: usize = 480 << 10;
/// No token lives to the year 5138: who says so means milliseconds.
const LATEST: f64 = 1e11;

/// A token as anyone who makes it hands it over.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    pub(crate) value: Secret,
    pub(crate) expires: Option<SystemTime>,
    pub(crate) extensions: Vec<(String, String)>,
}

/// What a source of tokens has to be waited for.
pub type Fetching<'a> = Pin<Box<dyn Future<Output = Result<Token>> + Send + 'a>>;

/// Where tokens come from.
pub trait TokenSource: Debug + Send + Sync {
    /// The place, for texts.
    fn name(&self) -> String;

    /// A new token. Errors are fit to be shown.
    fn fetch(&self) -> Fetching<'_>;

    /// What has kept the token from coming so far, while it is fetched.
    fn last_error(&self) -> Option<Error> {
        None
    }
}

/// A source that a program brought along.
#[derive(Debug, Clone)]
pub struct Provider(pub Arc<dyn TokenSource>);

impl Token {
    /// A token that ends when it says so itself or, if it does not, at `expires`. One whose end nobody knows is used for
    /// one login.
    ///
    /// # Errors
    /// It cannot be a token. The text says why, and has nothing of it.
    pub fn new(value: String, expires: Option<SystemTime>) -> std::result::Result<Self, String> {
        let value = Secret::from(value);
        let text = value.reveal();
        if text.is_empty() {
            return Err("the token is empty".to_owned());
        }
        if text.len() > LONGEST {
            return Err(format!("the token has {} bytes; brokers take no more than {LONGEST}", text.len()));
        }
        // RFC 6750: b64token. Anything else could end the token's part of the message, and begin another.
        if let Some(wrong) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || "-._~+/=".contains(*c))) {
            return Err(format!("the token has the character {wrong:?}, which no token can have"));
        }
        let told = jwt::claims(text).and_then(|claims| jwt::moment(&claims, "exp"));
        Ok(Self { expires: told.or(expires), value, extensions: Vec::new() })
    }

    /// A token that ends at `until`, in seconds since 1970; without that, when it says so itself.
    ///
    /// # Errors
    /// As [`Self::new`], and for a time that no clock has.
    pub fn until_seconds(value: String, until: Option<f64>) -> std::result::Result<Self, String> {
        let token = Self::new(value, None)?;
        let Some(until) = until else { return Ok(token) };
        if until > LATEST {
            return Err(format!("the token's end, {until}, is no time in seconds since 1970: is it in milliseconds?"));
        }
        let expires = jwt::time_of(until);
        let expires = expires.ok_or_else(|| format!("the token's end, {until}, is no time in seconds since 1970"))?;
        Ok(Self { expires: Some(expires), ..token })
    }

    /// The same with extensions, which replace those of the same names.
    ///
    /// # Errors
    /// A name or value that cannot be sent.
    pub fn with_extensions(mut self, extensions: Vec<(String, String)>) -> std::result::Result<Self, String> {
        for (name, value) in extensions {
            check_extension(&name, &value)?;
            self.extensions.retain(|(other, _)| *other != name);
            self.extensions.push((name, value));
        }
        Ok(self)
    }

    /// # Errors
    /// It has ended already.
    pub(crate) fn check_expiry(self, source: &str) -> Result<Self> {
        let ended = self.expires.and_then(|expires| SystemTime::now().duration_since(expires).ok());
        let Some(ended) = ended else { return Ok(self) };
        let text = format!(
            "the token had ended {} s before it was fetched: is the clock of this machine or of the issuer wrong, or a \
             length given where the end belongs?",
            ended.as_secs()
        );
        Err(Error::authentication(source, text))
    }
}

/// RFC 7628, 3.1, which Kafka's brokers hold extensions against.
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
    fn what_is_no_token_is_refused_and_not_shown() {
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
        let error = Token::new("a".repeat(LONGEST + 1), None).unwrap_err();
        assert!(error.contains("491521 bytes") && error.len() < 100, "{error}");
        let token = Token::new("secret".to_owned(), None).unwrap();
        assert!(!format!("{token:?}").contains("secret"));
    }

    #[test]
    fn extensions_are_held_against_what_brokers_take() {
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
    fn a_token_says_itself_when_it_ends() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let claims = Map::from_iter([("exp".to_owned(), 5000.into())]);
        let jwt = jwt::signed(&jwt::unsigned(&Map::new(), &claims), b"x");
        assert_eq!(Token::new(jwt.clone(), Some(at(9000))).unwrap().expires, Some(at(5000)));
        assert_eq!(Token::new("opaque".to_owned(), Some(at(9000))).unwrap().expires, Some(at(9000)));
        assert_eq!(Token::new("opaque".to_owned(), None).unwrap().expires, None);
        assert_eq!(Token::until_seconds(jwt.clone(), Some(4000.0)).unwrap().expires, Some(at(4000)));
        assert_eq!(Token::until_seconds(jwt.clone(), None).unwrap().expires, Some(at(5000)));
        for (wrong, reason) in [(-1.0, "is no time"), (f64::NAN, "is no time"), (1.7e12, "is it in milliseconds?")] {
            let error = Token::until_seconds(jwt.clone(), Some(wrong)).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
