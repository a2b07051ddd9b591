//! Modifications of login responses that are described by a struct instead of a hook.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use regex::bytes::Regex;
use samsarrow_wire::error_code::ErrorCode;

use super::sasl_response::LoginAnswer;

/// A regular expression to search in tokens, and the replacement of its matches. `$1` stands for the first capture
/// group.
#[derive(Debug, Clone)]
pub struct Replacement(Regex, Vec<u8>);

impl Replacement {
    /// Compiles a regular expression on bytes.
    ///
    /// # Errors
    /// Fails if the pattern is invalid.
    pub fn new(pattern: &str, with: &[u8]) -> io::Result<Self> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, format!("pattern {pattern:?}: {error}"));
        Ok(Self(Regex::new(pattern).map_err(invalid)?, with.to_vec()))
    }
}

/// Modification of login responses, for [`crate::Broker::alter_logins`]; `..Default::default()` leaves the rest
/// unchanged.
#[derive(Debug, Clone, Default)]
pub struct Alteration {
    /// Login step whose response is modified; all steps by default.
    pub step: Option<u32>,
    /// Node whose responses are modified; all nodes by default.
    pub node: Option<i32>,
    /// Maximum number of responses to modify; unlimited by default.
    pub times: Option<usize>,
    /// Error code to set. An error makes the login fail, but `ErrorCode::NONE` does not make a failed login succeed.
    pub error: Option<ErrorCode>,
    /// Error message to set.
    pub message: Option<String>,
    /// Mechanisms to set in the response to SaslHandshake.
    pub mechanisms: Option<Vec<String>>,
    /// Token to set.
    pub token: Option<Bytes>,
    /// Replacement to apply to the token. A response whose token does not match is left unchanged.
    pub replace: Option<Replacement>,
    /// Session lifetime to report. The time at which the session expires does not change.
    pub session_lifetime: Option<Duration>,
}

impl Alteration {
    /// Returns true if the alteration modifies no field.
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

    /// Modifies a response if its step, node and token match and `times` is not used up.
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
