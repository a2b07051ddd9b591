//! Declarative modifications of login responses.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use regex::bytes::Regex;
use samsarrow_wire::error_code::ErrorCode;

use super::sasl_response::LoginAnswer;

/// A regular expression for tokens and its replacement, with `$1` for the first group.
#[derive(Debug, Clone)]
pub struct Replacement(Regex, Vec<u8>);

impl Replacement {
    /// Compiles a regular expression on bytes.
    ///
    /// # Errors
    /// The pattern is invalid.
    pub fn new(pattern: &str, with: &[u8]) -> io::Result<Self> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, format!("pattern {pattern:?}: {error}"));
        Ok(Self(Regex::new(pattern).map_err(invalid)?, with.to_vec()))
    }
}

/// Modification of login responses, for [`crate::Broker::alter_logins`]; `..Default::default()` leaves the rest
/// unchanged.
#[derive(Debug, Clone, Default)]
pub struct Alteration {
    /// Step of the login to modify; all by default.
    pub step: Option<u32>,
    /// Node to modify; all by default.
    pub node: Option<i32>,
    /// Number of responses to modify; all by default.
    pub times: Option<usize>,
    /// Error to set. Setting an error fails the login; removing one does not make the login succeed.
    pub error: Option<ErrorCode>,
    /// Error message to set.
    pub message: Option<String>,
    /// Mechanisms to set in the response to SaslHandshake.
    pub mechanisms: Option<Vec<String>>,
    /// Token to set.
    pub token: Option<Bytes>,
    /// Replacement within the token; responses without a match are left unchanged.
    pub replace: Option<Replacement>,
    /// Session lifetime to report; the real end of the session does not change.
    pub session_lifetime: Option<Duration>,
}

impl Alteration {
    /// Returns true if nothing would be modified.
    pub(crate) fn is_empty(&self) -> bool {
        let Alteration { step: _, node: _, times: _, error, message, mechanisms, token, replace, session_lifetime } =
            self;
        error.is_none()
            && message.is_none()
            && mechanisms.is_none()
            && token.is_none()
            && replace.is_none()
            && session_lifetime.is_none()
    }

    fn matches(&self, response: &LoginAnswer) -> bool {
        self.times != Some(0)
            && self.step.is_none_or(|step| step == response.step)
            && self.node.is_none_or(|node| node == response.node)
            && self.replace.as_ref().is_none_or(|Replacement(pattern, _)| pattern.is_match(&response.token))
    }

    /// Modifies a response if it matches.
    pub(crate) fn apply(&mut self, response: &mut LoginAnswer) {
        if !self.matches(response) {
            return;
        }
        self.times = self.times.map(|remaining| remaining.saturating_sub(1));
        if let Some(Replacement(pattern, with)) = &self.replace {
            response.token = Bytes::from(pattern.replace(&response.token, with.as_slice()).into_owned());
        }
        response.error = self.error.unwrap_or(response.error);
        response.message = self.message.clone().or_else(|| response.message.take());
        if let Some(mechanisms) = &self.mechanisms {
            response.mechanisms.clone_from(mechanisms);
        }
        if let Some(token) = &self.token {
            response.token = token.clone();
        }
        if let Some(lifetime) = self.session_lifetime {
            response.session_lifetime_ms = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
        }
    }
}
