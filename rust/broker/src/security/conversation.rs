//! A mechanism's conversation with one client.

use bytes::Bytes;

use super::Security;
use super::options::Mechanism;
use super::scram::Scram;
use super::{oauth, plain};

/// What follows from a client's token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The client is to answer this.
    Challenge(Bytes),
    /// The client is who it says.
    Done {
        /// The last that it hears.
        token: Bytes,
        /// Who it is.
        principal: String,
        /// When its credentials end, in milliseconds since 1970.
        expires_ms: Option<i64>,
    },
}

impl Step {
    /// The end of a conversation in which nothing is left to be said.
    pub(super) fn done(principal: impl Into<String>) -> Self {
        Step::Done { token: Bytes::new(), principal: principal.into(), expires_ms: None }
    }
}

/// Why a client may not log in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It hears this.
    Said(String),
    /// It hears only that it failed, as of a password that is wrong and of a user that is not known.
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

/// Where it is in its mechanism.
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
