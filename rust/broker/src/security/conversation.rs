//! Server side of a SASL exchange with one client.

use bytes::Bytes;

use super::Security;
use super::options::Mechanism;
use super::scram::Scram;
use super::{oauth, plain};

/// Result of a client token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Challenge for the client.
    Challenge(Bytes),
    /// The client is authenticated.
    Done {
        /// Final token for the client.
        token: Bytes,
        /// Authenticated principal.
        principal: String,
        /// Expiry of the credentials, in milliseconds since 1970.
        expires_ms: Option<i64>,
    },
}

impl Step {
    /// Completes the exchange without a final token.
    pub(super) fn done(principal: impl Into<String>) -> Self {
        Step::Done { token: Bytes::new(), principal: principal.into(), expires_ms: None }
    }
}

/// Reason for a failed login.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Reported to the client.
    Said(String),
    /// Reported only as a failure, so that a wrong password and an unknown user look the same.
    Unsaid,
}

impl Refusal {
    pub(super) fn said(text: impl Into<String>) -> Self {
        Refusal::Said(text.into())
    }

    pub(super) fn other_identity() -> Self {
        Self::said("Authentication failed: Client requested an authorization id that is different from username")
    }
}

/// State of the exchange, by mechanism.
pub(super) enum Conversation {
    Plain,
    Scram(Scram),
    OAuthBearer(oauth::OAuthBearer),
}

impl Conversation {
    pub(super) fn new(mechanism: Mechanism) -> Self {
        match mechanism {
            Mechanism::Plain => Conversation::Plain,
            Mechanism::ScramSha256 | Mechanism::ScramSha512 => Conversation::Scram(Scram::new(mechanism)),
            Mechanism::OAuthBearer => Conversation::OAuthBearer(oauth::OAuthBearer::default()),
        }
    }

    pub(super) fn answer(&mut self, token: &[u8], security: &Security) -> Result<Step, Refusal> {
        let users = &security.options.users;
        match self {
            Conversation::Plain => plain::answer(token, users),
            Conversation::Scram(scram) => scram.answer(token, users, &security.credentials),
            Conversation::OAuthBearer(bearer) => bearer.answer(token),
        }
    }
}
