//! Errors of the client and their classification.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;

/// Result of a client operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Exception raised by application code. It is passed through unchanged.
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

/// Client error. It is cheap to clone, because a single broken connection fails all requests that wait for a response
/// on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A broker returned an error code.
    #[error("{context}: {}", described(*code, message.as_deref()))]
    Server {
        /// Error code.
        code: ErrorCode,
        /// The request and the topic, group or other resource that it concerns.
        context: String,
        /// The broker's explanation, which replaces the description of the code.
        message: Option<String>,
    },
    /// An operation exceeded its timeout.
    #[error("{what} took longer than {}{}", seconds(*after), cause.as_ref().map(|c| format!(" (last error: {c})")).unwrap_or_default())]
    Timeout {
        /// Operation.
        what: String,
        /// Timeout.
        after: Duration,
        /// Last error that occurred before the timeout.
        cause: Option<Box<Error>>,
    },
    /// The client is closed.
    #[error("{0} is closed")]
    Closed(String),
    /// `wakeup` was called.
    #[error("poll was woken up by wakeup()")]
    Wakeup,
    /// Invalid option or argument, or an invalid combination.
    #[error("{0}")]
    Configuration(String),
    /// A broker cannot be reached, or the connection was lost.
    #[error("{address}: {reason}")]
    Connection {
        /// Host and port.
        address: String,
        /// Reason.
        reason: String,
    },
    /// No name of a bootstrap server could be resolved within `bootstrap.resolve.timeout.ms`.
    #[error("{0}")]
    BootstrapResolution(String),
    /// The peer does not use Kafka's protocol, or violates it.
    #[error("{address}: {reason}")]
    Protocol {
        /// Host and port.
        address: String,
        /// Reason.
        reason: String,
    },
    /// A TLS handshake failed permanently.
    #[error("{address}: {reason}")]
    Tls {
        /// Host and port.
        address: String,
        /// Reason of the failure, and the option to change.
        reason: String,
    },
    /// A broker rejects the login, or the client cannot authenticate the broker.
    #[error("{address}: {reason}")]
    Authentication {
        /// Host and port of the broker, or the source of the credentials.
        address: String,
        /// Reason of the failure, and the option to change.
        reason: String,
        /// Exception raised by application code that supplies credentials.
        cause: Option<Foreign>,
    },
    /// Client and broker have no API version in common, or one of them does not support the version set by the user.
    #[error("{0}")]
    UnsupportedVersion(String),
    /// The call is not valid in the client's current state.
    #[error("{0}")]
    State(String),
    /// A record was rejected because of other records in its batch; the record itself is valid.
    #[error("{0}")]
    RejectedWithOthers(String),
    /// A record was dropped before it was sent, because its transaction was aborted.
    #[error("{0}")]
    Aborted(String),
    /// The transaction must be aborted or, if the error is fatal, the producer must be closed.
    #[error("{}: {cause}", if *fatal { "the transactional producer can do no more, close it" } else { "the transaction must be aborted" })]
    Transaction {
        /// True if the producer must be closed. Otherwise it can continue after the transaction is aborted.
        fatal: bool,
        /// Cause.
        cause: Box<Error>,
    },
    /// A transaction exceeded its timeout, after which the broker rejected another request of the transaction.
    #[error(
        "the transaction was open for {}, longer than transaction.timeout.ms ({}): the coordinator has aborted it ({})",
        seconds(*open), seconds(*timeout), rejected_as(cause)
    )]
    TransactionTimedOut {
        /// Time since the first request of the transaction.
        open: Duration,
        /// `transaction.timeout.ms`.
        timeout: Duration,
        /// Error response of the broker, which does not mention the timeout.
        cause: Box<Error>,
    },
    /// The fetched bytes are not valid record batches.
    #[error("{0}")]
    Corrupt(String),
    /// A schema registry cannot be reached, or rejects a request.
    #[error("{url}: {reason}")]
    Registry {
        /// URL of the registry.
        url: String,
        /// Reason of the failure, and what to do.
        reason: String,
        /// HTTP status of the response.
        status: Option<u16>,
        /// True if the same call may succeed later.
        retriable: bool,
    },
    /// A schema registry does not have the requested schema, subject or version.
    #[error("{0}")]
    SchemaNotFound(String),
    /// A schema is incompatible with earlier versions of its subject.
    #[error("{text}{}", reasons.iter().map(|reason| format!("\n  {reason}")).collect::<String>())]
    SchemaIncompatible {
        /// Schema and subject.
        text: String,
        /// Reasons of the incompatibility, as reported by the registry.
        reasons: Vec<String>,
    },
    /// The position of a partition is out of range, and no reset policy is configured.
    #[error("{0}")]
    OffsetOutOfRange(String),
}

fn seconds(time: Duration) -> String {
    format!("{} s", (time.as_secs_f64() * 1000.0).round() / 1000.0)
}

/// Returns the name and the number of an error code, with the broker's explanation or the description of the code.
fn described(code: ErrorCode, message: Option<&str>) -> String {
    format!("{} ({}): {}", code.name(), code.code(), message.unwrap_or(code.description()))
}

/// Returns the request and the name of the error code. The description of the code is left out, because it would state
/// another reason than the timeout.
fn rejected_as(error: &Error) -> String {
    match error {
        Error::Server { code, context, .. } => format!("{context}: {} ({})", code.name(), code.code()),
        other => other.to_string(),
    }
}

impl Error {
    /// Returns the text without `address`, for a sentence that names the address.
    pub(crate) fn text_without(&self, address: &str) -> String {
        let text = self.to_string();
        text.strip_prefix(address).and_then(|rest| rest.strip_prefix(": ")).map(str::to_owned).unwrap_or(text)
    }

    /// Creates the error for a broker's error code. `context` names the request and the resource that it concerns.
    pub fn server(code: ErrorCode, context: impl Into<String>) -> Self {
        Self::explained(code, context, None)
    }

    /// Like [`Error::server`], with the broker's message instead of the description of the code. A message that only
    /// repeats the name of the code, as some brokers send it, is left out.
    pub fn explained(code: ErrorCode, context: impl Into<String>, message: Option<String>) -> Self {
        let context = context.into();
        let message = message.filter(|text| !text.trim().is_empty() && !text.trim().eq_ignore_ascii_case(code.name()));
        crate::reached::error_code(&context, code);
        Self::Server { code, context, message }
    }

    /// Creates the error for an operation `what` that exceeded the timeout `after`.
    pub fn timeout(what: impl Into<String>, after: Duration) -> Self {
        Self::Timeout { what: what.into(), after, cause: None }
    }

    /// Creates a timeout error with the last error that occurred before it.
    pub fn timeout_because(what: impl Into<String>, after: Duration, cause: Option<Error>) -> Self {
        Self::Timeout { what: what.into(), after, cause: cause.map(Box::new) }
    }

    /// Returns the earlier error if this error is a timeout, because the earlier error explains more.
    pub(crate) fn prefer_cause(self, earlier: Option<Error>) -> Error {
        match (&self, earlier) {
            (Self::Timeout { .. }, Some(earlier)) => earlier,
            _ => self,
        }
    }

    /// Creates the error for the use of a closed `what`.
    pub fn closed(what: impl Into<String>) -> Self {
        Self::Closed(what.into())
    }

    /// Creates the error for an invalid option or argument.
    pub fn configuration(text: impl Into<String>) -> Self {
        Self::Configuration(text.into())
    }

    pub fn connection(address: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Connection { address: address.into(), reason: reason.into() }
    }

    /// Creates a connection error from an I/O error.
    pub(crate) fn io(address: &str, doing: &str, error: &io::Error) -> Self {
        // An I/O error from a TLS stream already contains the client's own error.
        if let Some(explained) = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            return explained.clone();
        }
        Self::connection(address, format!("{doing}: {error}"))
    }

    /// Creates the error for a peer that violates the protocol.
    pub fn protocol(address: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Protocol { address: address.into(), reason: reason.into() }
    }

    /// Creates the error for a failed TLS handshake.
    pub fn tls(address: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Tls { address: address.into(), reason: reason.into() }
    }

    /// Creates the error for a failed login.
    pub fn authentication(address: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Authentication { address: address.into(), reason: reason.into(), cause: None }
    }

    /// Attaches the application exception that caused an authentication error. Other errors are returned unchanged.
    #[must_use]
    pub fn caused_by(self, raised: Foreign) -> Self {
        match self {
            Self::Authentication { address, reason, .. } => {
                Self::Authentication { address, reason, cause: Some(raised) }
            }
            other => other,
        }
    }

    /// Returns the exception of application code that caused this error, if any.
    pub fn foreign(&self) -> Option<&Foreign> {
        match self {
            Self::Authentication { cause, .. } => cause.as_ref(),
            Self::Timeout { cause, .. } => cause.as_ref()?.foreign(),
            Self::Transaction { cause, .. } => cause.foreign(),
            _ => None,
        }
    }

    /// Creates the error for corrupt data.
    pub fn corrupt(text: impl Into<String>) -> Self {
        Self::Corrupt(text.into())
    }

    /// Returns the error with the operation `doing` added to its text.
    #[must_use]
    pub fn context(self, doing: impl Into<String>) -> Self {
        let doing = doing.into();
        match self {
            Self::Server { code, context, message } => {
                Self::Server { code, context: format!("{doing}: {context}"), message }
            }
            Self::Timeout { what, after, cause } => Self::Timeout { what: format!("{doing}: {what}"), after, cause },
            Self::Configuration(text) => Self::Configuration(format!("{doing}: {text}")),
            Self::Connection { address, reason } => Self::Connection { address, reason: format!("{reason} ({doing})") },
            Self::BootstrapResolution(text) => Self::BootstrapResolution(format!("{doing}: {text}")),
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
            Self::Registry { url, reason, status, retriable } => {
                Self::Registry { url, reason: format!("{reason} ({doing})"), status, retriable }
            }
            Self::SchemaNotFound(text) => Self::SchemaNotFound(format!("{doing}: {text}")),
            Self::SchemaIncompatible { text, reasons } => {
                Self::SchemaIncompatible { text: format!("{doing}: {text}"), reasons }
            }
            other @ (Self::Closed(_) | Self::Wakeup) => other,
        }
    }

    /// Returns the name of the corresponding Python exception class. For a broker's error code, it is the name of the
    /// code in camel case.
    pub fn name(&self) -> String {
        match self {
            Self::Server { code, .. } => class_name(*code),
            Self::Timeout { .. } => "KafkaTimeoutError".into(),
            Self::Closed(_) => "ClosedError".into(),
            Self::Wakeup => "WakeupError".into(),
            Self::Configuration(_) => "ConfigurationError".into(),
            Self::Connection { .. } => "KafkaConnectionError".into(),
            Self::BootstrapResolution(_) => "BootstrapResolutionError".into(),
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
            // The class of the cause is not used here, because it is the class of a retriable error.
            Self::Transaction { fatal: false, cause } if cause.retriable() => {
                class_name(ErrorCode::TRANSACTION_ABORTABLE)
            }
            Self::Transaction { cause, .. } | Self::TransactionTimedOut { cause, .. } => cause.name(),
            Self::OffsetOutOfRange(_) => class_name(ErrorCode::OFFSET_OUT_OF_RANGE),
        }
    }

    /// Returns Kafka's error code, if there is one.
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

    /// Returns true if the same call may succeed later.
    pub fn retriable(&self) -> bool {
        match self {
            Self::Server { code, .. } => code.retriable(),
            Self::Timeout { .. } | Self::Connection { .. } | Self::RejectedWithOthers(_) => true,
            Self::Registry { retriable, .. } => *retriable,
            _ => false,
        }
    }

    /// Returns true if a login or a TLS handshake failed. The next attempt may succeed, with other credentials or once
    /// the broker's authentication backend is available again.
    pub(crate) fn of_handshake(&self) -> bool {
        matches!(self, Self::Tls { .. } | Self::Authentication { .. })
    }

    /// Returns true if no broker returned this error, because none was reached or none responded in time.
    pub(crate) fn unanswered(&self) -> bool {
        match self {
            Self::Connection { .. } => true,
            Self::Timeout { cause, .. } => cause.as_ref().is_none_or(|cause| cause.unanswered()),
            _ => false,
        }
    }

    /// Returns true if metadata should be refreshed before the next attempt.
    pub fn refresh_metadata(&self) -> bool {
        match self {
            Self::Server { code, .. } => code.refresh_metadata(),
            Self::Timeout { .. } | Self::Connection { .. } => true,
            _ => false,
        }
    }

    /// Returns true if no retry with this client can succeed.
    pub fn fatal(&self) -> bool {
        match self {
            Self::Server { code, .. } => code.fatal(),
            Self::TransactionTimedOut { cause, .. } => cause.fatal(),
            Self::Closed(_)
            | Self::BootstrapResolution(_)
            | Self::Protocol { .. }
            | Self::Tls { .. }
            | Self::Authentication { .. }
            | Self::UnsupportedVersion(_) => true,
            Self::Transaction { fatal, .. } => *fatal,
            _ => false,
        }
    }

    /// Returns true if the transaction must be aborted and the producer can then continue.
    pub fn abortable(&self) -> bool {
        match self {
            Self::Server { code, .. } => *code == ErrorCode::TRANSACTION_ABORTABLE,
            Self::Transaction { fatal, .. } => !fatal,
            Self::Aborted(_) => true,
            _ => false,
        }
    }
}

/// Converts the name of an error code to that of an exception class: `NOT_LEADER_OR_FOLLOWER` →
/// `NotLeaderOrFollowerError`.
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
