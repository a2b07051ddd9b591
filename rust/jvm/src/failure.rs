//! What goes to Java as an exception.

use samsarrow_client::error::Error as ClientError;
use samsarrow_spark::Error;

/// Result of what may fail.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The fields of `SamsarrowException`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// `configuration`, `kafka`, `data_loss`, `bad_value`, `state` or `panic`.
    pub kind: &'static str,
    /// Name of the exception class in Python.
    pub name: String,
    /// Whether the same call may succeed later.
    pub retriable: bool,
    /// What happened, and what to do.
    pub text: String,
}

impl Failure {
    /// A call that does not fit what the library knows.
    pub fn state(text: impl Into<String>) -> Self {
        Self { kind: "state", name: "IllegalStateError".into(), retriable: false, text: text.into() }
    }

    /// A key or a value cannot be read.
    pub fn bad_value(text: impl Into<String>) -> Self {
        Self { kind: "bad_value", name: "BadValueError".into(), retriable: false, text: text.into() }
    }

    /// Something was not done in its time.
    pub fn timeout(text: impl Into<String>) -> Self {
        Self { kind: "kafka", name: "KafkaTimeoutError".into(), retriable: true, text: text.into() }
    }

    /// A mistake of the library's own.
    pub fn panic(text: impl Into<String>) -> Self {
        Self { kind: "panic", name: "PanicError".into(), retriable: false, text: text.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { kind: error.kind(), name: error.name(), retriable: error.retriable(), text: error.to_string() }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Error::from(error).into()
    }
}
