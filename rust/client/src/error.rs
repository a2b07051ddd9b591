//! What can go wrong, and what to do about it.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;

/// The result of whatever talks to Kafka.
pub type Result<T> = std::result::Result<T, Error>;

/// Something that a program's own code raised: carried along, never looked into.
#[derive(Clone)]
pub struct Foreign(pub Arc<dyn Any + Send + Sync>);

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Foreign")
    }
}

impl PartialEq for Foreign {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Foreign {}

/// A failure. It is cheap to clone: one broken connection fails all that wait on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A broker answered with an error.
    #[error("{context}: {code}")]
    Server {
        /// What the broker said.
        code: ErrorCode,
        /// What was asked, of what.
        context: String,
    },
    /// Something was not done in its time.
    #[error("{what} took longer than {}{}", seconds(*after), cause.as_ref().map(|c| format!(" (last error: {c})")).unwrap_or_default())]
    Timeout {
        /// What was waited for.
        what: String,
        /// The time it had.
        after: Duration,
        /// The last error that was met on the way.
        cause: Option<Box<Error>>,
    },
    /// The client was closed.
    #[error("{0} is closed")]
    Closed(String),
    /// `wakeup` was called.
    #[error("poll was woken up by wakeup()")]
    Wakeup,
    /// An option, an argument or their combination cannot be.
    #[error("{0}")]
    Configuration(String),
    /// A broker cannot be reached, or the connection broke.
    #[error("{address}: {reason}")]
    Connection {
        /// Host and port.
        address: String,
        /// What happened.
        reason: String,
    },
    /// What answers at an address does not speak Kafka, or not as it should.
    #[error("{address}: {reason}")]
    Protocol {
        /// Host and port.
        address: String,
        /// What was wrong.
        reason: String,
    },
    /// A TLS handshake failed, and would fail again.
    #[error("{address}: {reason}")]
    Tls {
        /// Host and port.
        address: String,
        /// What was wrong, and what to set.
        reason: String,
    },
    /// A broker refuses the login, or is not who it should be.
    #[error("{address}: {reason}")]
    Authentication {
        /// Host and port, or where credentials should have come from.
        address: String,
        /// What was wrong, and what to set.
        reason: String,
        /// What a program's own code raised.
        cause: Option<Foreign>,
    },
    /// Client and broker have no version of an API in common, or not the one that was chosen.
    #[error("{0}")]
    UnsupportedVersion(String),
    /// A call that does not fit the state that the client is in.
    #[error("{0}")]
    State(String),
    /// A record was rejected with its batch because of other records in it; nothing is wrong with the record itself.
    #[error("{0}")]
    RejectedWithOthers(String),
    /// A record was given up with its transaction, unsent.
    #[error("{0}")]
    Aborted(String),
    /// A transaction cannot be committed any more, or its producer can do no more at all.
    #[error("{}: {cause}", if *fatal { "the transactional producer can do no more, close it" } else { "the transaction must be aborted" })]
    Transaction {
        /// Whether the producer has to be closed; otherwise it can go on once the transaction is aborted.
        fatal: bool,
        /// What happened.
        cause: Box<Error>,
    },
    /// A transaction was open for longer than its timeout, and what followed was rejected.
    #[error(
        "the transaction was open for {}, longer than transaction.timeout.ms ({}): the coordinator has aborted it ({})",
        seconds(*open), seconds(*timeout), rejected_as(cause)
    )]
    TransactionTimedOut {
        /// The time since its first request.
        open: Duration,
        /// `transaction.timeout.ms`.
        timeout: Duration,
        /// The response of the broker, which cannot give this reason.
        cause: Box<Error>,
    },
    /// Fetched bytes are not valid record batches.
    #[error("{0}")]
    Corrupt(String),
    /// A schema registry cannot be asked, or refuses what it is asked for.
    #[error("{url}: {reason}")]
    Registry {
        /// Which.
        url: String,
        /// What happened, and what to do.
        reason: String,
        /// What it answered in HTTP.
        status: Option<u16>,
        /// Whether the same call may succeed later.
        passes: bool,
    },
    /// A schema registry has no such schema, subject or version.
    #[error("{0}")]
    SchemaNotFound(String),
    /// A schema does not go with earlier ones of its subject.
    #[error("{text}{}", reasons.iter().map(|reason| format!("\n  {reason}")).collect::<String>())]
    SchemaIncompatible {
        /// Which, and with what.
        text: String,
        /// The registry's own words.
        reasons: Vec<String>,
    },
    /// A position that is not there, with no policy to find another.
    #[error("{0}")]
    OffsetOutOfRange(String),
}

fn seconds(time: Duration) -> String {
    format!("{} s", (time.as_secs_f64() * 1000.0).round() / 1000.0)
}

/// Returns the request and the name of the code, without its description, which is that of another reason.
fn rejected_as(error: &Error) -> String {
    match error {
        Error::Server { code, context } => format!("{context}: {} ({})", code.name(), code.code()),
        other => other.to_string(),
    }
}

impl Error {
    /// A broker's error; `context` says what was asked, of what.
    pub fn server(code: ErrorCode, context: impl Into<String>) -> Self {
        Self::Server { code, context: context.into() }
    }

    /// `what` was not done within `after`.
    pub fn timeout(what: impl Into<String>, after: Duration) -> Self {
        Self::Timeout { what: what.into(), after, cause: None }
    }

    /// The same with the last error that was met; an error that retrying cannot heal is returned as it is.
    pub fn timeout_because(what: impl Into<String>, after: Duration, cause: Option<Error>) -> Self {
        Self::Timeout { what: what.into(), after, cause: cause.map(Box::new) }
    }

    /// Which of two errors to report: that the last try had no time left says less than what went wrong before.
    pub(crate) fn after(self, earlier: Option<Error>) -> Error {
        match (&self, earlier) {
            (Self::Timeout { .. }, Some(earlier)) => earlier,
            _ => self,
        }
    }

    /// `what` was closed.
    pub fn closed(what: impl Into<String>) -> Self {
        Self::Closed(what.into())
    }

    /// An option or argument that cannot be.
    pub fn configuration(text: impl Into<String>) -> Self {
        Self::Configuration(text.into())
    }

    /// A broker that cannot be reached, or a connection that broke.
    pub fn connection(address: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Connection { address: address.into(), reason: reason.into() }
    }

    /// An I/O error on a connection.
    pub(crate) fn io(address: &str, doing: &str, error: &io::Error) -> Self {
        // What TLS has against the other side is explained already.
        if let Some(explained) = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            return explained.clone();
        }
        Self::connection(address, format!("{doing}: {error}"))
    }

    /// A peer that does not speak Kafka as it should.
    pub fn protocol(address: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Protocol { address: address.into(), reason: reason.into() }
    }

    /// A TLS handshake that failed.
    pub fn tls(address: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Tls { address: address.into(), reason: reason.into() }
    }

    /// A login that failed.
    pub fn authentication(address: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Authentication { address: address.into(), reason: reason.into(), cause: None }
    }

    /// The same with what a program's own code raised, where that kept a client from logging in.
    #[must_use]
    pub fn caused_by(self, raised: Foreign) -> Self {
        match self {
            Self::Authentication { address, reason, .. } => {
                Self::Authentication { address, reason, cause: Some(raised) }
            }
            other => other,
        }
    }

    /// What a program's own code raised, if that is at the bottom of it.
    pub fn foreign(&self) -> Option<&Foreign> {
        match self {
            Self::Authentication { cause, .. } => cause.as_ref(),
            Self::Timeout { cause, .. } => cause.as_ref()?.foreign(),
            Self::Transaction { cause, .. } => cause.foreign(),
            _ => None,
        }
    }

    /// Bytes that are not what they should be.
    pub fn corrupt(text: impl Into<String>) -> Self {
        Self::Corrupt(text.into())
    }

    /// The same error, saying first what was being done.
    #[must_use]
    pub fn context(self, doing: impl Into<String>) -> Self {
        let doing = doing.into();
        match self {
            Self::Server { code, context } => Self::Server { code, context: format!("{doing}: {context}") },
            Self::Timeout { what, after, cause } => Self::Timeout { what: format!("{doing}: {what}"), after, cause },
            Self::Configuration(text) => Self::Configuration(format!("{doing}: {text}")),
            Self::Connection { address, reason } => Self::Connection { address, reason: format!("{reason} ({doing})") },
            Self::Protocol { address, reason } => Self::Protocol { address, reason: format!("{reason} ({doing})") },
            Self::Tls { address, reason } => Self::Tls { address, reason: format!("{reason} ({doing})") },
            Self::Authentication { address, reason, cause } => {
                Self::Authentication { address, reason: format!("{reason} ({doing})"), cause }
            }
            Self::UnsupportedVersion(text) => Self::UnsupportedVersion(format!("{doing}: {text}")),
            Self::Corrupt(text) => Self::Corrupt(format!("{doing}: {text}")),
            Self::OffsetOutOfRange(text) => Self::OffsetOutOfRange(format!("{doing}: {text}")),
            Self::State(text) => Self::State(format!("{doing}: {text}")),
            Self::RejectedWithOthers(text) => Self::RejectedWithOthers(format!("{doing}: {text}")),
            Self::Aborted(text) => Self::Aborted(format!("{doing}: {text}")),
            Self::Transaction { fatal, cause } => Self::Transaction { fatal, cause: Box::new(cause.context(doing)) },
            Self::TransactionTimedOut { open, timeout, cause } => {
                Self::TransactionTimedOut { open, timeout, cause: Box::new(cause.context(doing)) }
            }
            Self::Registry { url, reason, status, passes } => {
                Self::Registry { url, reason: format!("{reason} ({doing})"), status, passes }
            }
            Self::SchemaNotFound(text) => Self::SchemaNotFound(format!("{doing}: {text}")),
            Self::SchemaIncompatible { text, reasons } => {
                Self::SchemaIncompatible { text: format!("{doing}: {text}"), reasons }
            }
            other @ (Self::Closed(_) | Self::Wakeup) => other,
        }
    }

    /// Name of the exception class: the protocol's name in camel case for a broker's error.
    pub fn name(&self) -> String {
        match self {
            Self::Server { code, .. } => class_name(*code),
            Self::Timeout { .. } => "KafkaTimeoutError".into(),
            Self::Closed(_) => "ClosedError".into(),
            Self::Wakeup => "WakeupError".into(),
            Self::Configuration(_) => "ConfigurationError".into(),
            Self::Connection { .. } => "KafkaConnectionError".into(),
            Self::Protocol { .. } => "KafkaProtocolError".into(),
            Self::Tls { .. } => "TlsError".into(),
            Self::Authentication { .. } => "AuthenticationError".into(),
            Self::UnsupportedVersion(_) => class_name(ErrorCode::UNSUPPORTED_VERSION),
            Self::Corrupt(_) => "CorruptRecordError".into(),
            Self::Registry { .. } => "RegistryError".into(),
            Self::SchemaNotFound(_) => "SchemaNotFoundError".into(),
            Self::SchemaIncompatible { .. } => "SchemaIncompatibleError".into(),
            Self::State(_) => "IllegalStateError".into(),
            Self::RejectedWithOthers(_) => "RejectedWithOthersError".into(),
            Self::Aborted(_) => "TransactionAbortedError".into(),
            // Not the class of a call that may be made again.
            Self::Transaction { fatal: false, cause } if cause.retriable() => {
                class_name(ErrorCode::TRANSACTION_ABORTABLE)
            }
            Self::Transaction { cause, .. } | Self::TransactionTimedOut { cause, .. } => cause.name(),
            Self::OffsetOutOfRange(_) => class_name(ErrorCode::OFFSET_OUT_OF_RANGE),
        }
    }

    /// Kafka's number of the error, where it is one of Kafka's.
    pub fn code(&self) -> Option<i16> {
        match self {
            Self::Server { code, .. } => Some(code.code()),
            Self::UnsupportedVersion(_) => Some(ErrorCode::UNSUPPORTED_VERSION.code()),
            Self::OffsetOutOfRange(_) => Some(ErrorCode::OFFSET_OUT_OF_RANGE.code()),
            Self::Transaction { fatal: false, cause } if cause.retriable() => {
                Some(ErrorCode::TRANSACTION_ABORTABLE.code())
            }
            Self::Transaction { cause, .. } | Self::TransactionTimedOut { cause, .. } => cause.code(),
            _ => None,
        }
    }

    /// Whether the same call may succeed later.
    pub fn retriable(&self) -> bool {
        match self {
            Self::Server { code, .. } => code.retriable(),
            Self::Timeout { .. } | Self::Connection { .. } | Self::RejectedWithOthers(_) => true,
            Self::Registry { passes, .. } => *passes,
            _ => false,
        }
    }

    /// Returns whether a login or a TLS handshake failed. The next one may succeed: with another certificate or password, or
    /// once the broker's directory answers.
    pub(crate) fn of_handshake(&self) -> bool {
        matches!(self, Self::Tls { .. } | Self::Authentication { .. })
    }

    /// Whether it comes from no broker: none was reached, or none answered in time.
    pub(crate) fn unanswered(&self) -> bool {
        match self {
            Self::Connection { .. } => true,
            Self::Timeout { cause, .. } => cause.as_ref().is_none_or(|cause| cause.unanswered()),
            _ => false,
        }
    }

    /// Whether metadata should be asked for again before the next try.
    pub fn refresh_metadata(&self) -> bool {
        match self {
            Self::Server { code, .. } => code.refresh_metadata(),
            Self::Timeout { .. } | Self::Connection { .. } => true,
            _ => false,
        }
    }

    /// Whether this client will never succeed as it is.
    pub fn fatal(&self) -> bool {
        match self {
            Self::Server { code, .. } => code.fatal(),
            Self::TransactionTimedOut { cause, .. } => cause.fatal(),
            Self::Closed(_)
            | Self::Protocol { .. }
            | Self::Tls { .. }
            | Self::Authentication { .. }
            | Self::UnsupportedVersion(_) => true,
            Self::Transaction { fatal, .. } => *fatal,
            _ => false,
        }
    }

    /// Whether the transaction must be aborted, after which the producer can go on.
    pub fn abortable(&self) -> bool {
        match self {
            Self::Server { code, .. } => *code == ErrorCode::TRANSACTION_ABORTABLE,
            Self::Transaction { fatal, .. } => !fatal,
            Self::Aborted(_) => true,
            _ => false,
        }
    }
}

/// `NOT_LEADER_OR_FOLLOWER` → `NotLeaderOrFollowerError`.
pub fn class_name(code: ErrorCode) -> String {
    let name = code.name();
    let stem = name.strip_suffix("_EXCEPTION").or_else(|| name.strip_suffix("_ERROR")).unwrap_or(name);
    let mut class = String::with_capacity(stem.len() + 5);
    for word in stem.split('_') {
        let (first, rest) = word.split_at(word.len().min(1));
        class.push_str(first);
        class.push_str(&rest.to_lowercase());
    }
    class + "Error"
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
