//! Answers in a login that are changed by description.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use regex::bytes::Regex;
use samsarrow_wire::error_code::ErrorCode;

use super::answer::LoginAnswer;

/// A pattern in a token and what comes in its place, `$1` for what its first group has found.
#[derive(Debug, Clone)]
pub struct Replacement(Regex, Vec<u8>);

impl Replacement {
    /// With a regular expression of bytes.
    ///
    /// # Errors
    /// It is none.
    pub fn new(pattern: &str, with: &[u8]) -> io::Result<Self> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, format!("pattern {pattern:?}: {error}"));
        Ok(Self(Regex::new(pattern).map_err(invalid)?, with.to_vec()))
    }
}

/// What changes in answers of logins, for [`crate::Broker::alter_logins`]; `..Default::default()` leaves the rest.
#[derive(Debug, Clone, Default)]
pub struct Alteration {
    /// Which answer of a login; all if none is said.
    pub step: Option<u32>,
    /// Whose; of all nodes if none is said.
    pub node: Option<i32>,
    /// How many answers; all if none is said.
    pub times: Option<usize>,
    /// Instead of the error. One where there was none refuses the client; none where there was one leaves it refused.
    pub error: Option<ErrorCode>,
    /// Instead of the text that an error has.
    pub message: Option<String>,
    /// Instead of the mechanisms that a handshake is answered with.
    pub mechanisms: Option<Vec<String>>,
    /// Instead of the mechanism's token.
    pub token: Option<Bytes>,
    /// In the token; answers without the pattern are not meant.
    pub replace: Option<Replacement>,
    /// Instead of the lifetime that a client learns; the session ends when it did.
    pub session_lifetime: Option<Duration>,
}

impl Alteration {
    /// Whether it would change anything.
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

    fn is_meant(&self, answer: &LoginAnswer) -> bool {
        self.times != Some(0)
            && self.step.is_none_or(|step| step == answer.step)
            && self.node.is_none_or(|node| node == answer.node)
            && self.replace.as_ref().is_none_or(|Replacement(pattern, _)| pattern.is_match(&answer.token))
    }

    /// Changes an answer that is meant.
    pub(crate) fn apply(&mut self, answer: &mut LoginAnswer) {
        if !self.is_meant(answer) {
            return;
        }
        self.times = self.times.map(|left| left.saturating_sub(1));
        if let Some(Replacement(pattern, with)) = &self.replace {
            answer.token = Bytes::from(pattern.replace(&answer.token, with.as_slice()).into_owned());
        }
        answer.error = self.error.unwrap_or(answer.error);
        answer.message = self.message.clone().or_else(|| answer.message.take());
        if let Some(mechanisms) = &self.mechanisms {
            answer.mechanisms.clone_from(mechanisms);
        }
        if let Some(token) = &self.token {
            answer.token = token.clone();
        }
        if let Some(lifetime) = self.session_lifetime {
            answer.session_lifetime_ms = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
        }
    }
}
