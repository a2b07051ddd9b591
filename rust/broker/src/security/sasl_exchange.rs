//! Server side of a SASL exchange with one client.

use bytes::Bytes;

use super::Security;
use super::options::Mechanism;
use super::scram::Scram;
use super::{oauth, plain};

/// Result of a client token that was accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The exchange continues with this challenge for the client.
    Challenge(Bytes),
    /// The client is authenticated.
    Done {
        /// Final token for the client; may be empty.
        token: Bytes,
        /// Authenticated principal.
        principal: String,
        /// Expiry of the credentials, in milliseconds since 1970.
        expires_ms: Option<i64>,
    },
}

impl Step {
    /// Returns the result of a complete exchange without a final token or an expiry.
    pub(super) fn done(principal: impl Into<String>) -> Self {
        Step::Done { token: Bytes::new(), principal: principal.into(), expires_ms: None }
    }
}

/// Reason for a failed login.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// The client receives this text.
    Explained(String),
    /// The client receives a general text, so that it cannot distinguish a wrong password from an unknown user.
    Generic,
}

impl Rejection {
    pub(super) fn explained(text: impl Into<String>) -> Self {
        Rejection::Explained(text.into())
    }

    pub(super) fn different_identity() -> Self {
        Self::explained("Authentication failed: Client requested an authorization id that is different from username")
    }
}

/// State of a SASL exchange, by mechanism.
pub(super) enum SaslExchange {
    Plain,
    Scram(Scram),
    OAuthBearer(oauth::OAuthBearer),
}

impl SaslExchange {
    pub(super) fn new(mechanism: Mechanism) -> Self {
        match mechanism {
            Mechanism::Plain => SaslExchange::Plain,
            Mechanism::ScramSha256 | Mechanism::ScramSha512 => SaslExchange::Scram(Scram::new(mechanism)),
            Mechanism::OAuthBearer => SaslExchange::OAuthBearer(oauth::OAuthBearer::default()),
        }
    }

    pub(super) fn evaluate(&mut self, token: &[u8], security: &Security) -> Result<Step, Rejection> {
        let users = &security.options.users;
        match self {
            SaslExchange::Plain => plain::evaluate(token, users),
            SaslExchange::Scram(scram) => scram.evaluate(token, users, &security.credentials),
            SaslExchange::OAuthBearer(bearer) => bearer.evaluate(token),
        }
    }
}
