//! Errors that are thrown in Java.

use samsarrow_client::error::Error as ClientError;
use samsarrow_spark::Error;

/// Result of a fallible call.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Fields of `SamsarrowException`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Kind of the error: `configuration`, `kafka`, `data_loss`, `bad_value`, `state` or `panic`.
    pub kind: &'static str,
    /// Name of the exception class in Python.
    pub name: String,
    /// True if the same call may succeed later.
    pub retriable: bool,
    /// Description of the error, with a suggestion.
    pub text: String,
}

impl Failure {
    /// Creates an error for a call that is not valid in the library's current state.
    pub fn state(text: impl Into<String>) -> Self {
        Self { kind: "state", name: "IllegalStateError".into(), retriable: false, text: text.into() }
    }

    /// Creates an error for a key or value that cannot be decoded.
    pub fn bad_value(text: impl Into<String>) -> Self {
        Self { kind: "bad_value", name: "BadValueError".into(), retriable: false, text: text.into() }
    }

    /// Creates an error for an exceeded timeout.
    pub fn timeout(text: impl Into<String>) -> Self {
        Self { kind: "kafka", name: "KafkaTimeoutError".into(), retriable: true, text: text.into() }
    }

    /// Creates an error for a panic in the library.
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

/// Creates the error for a batch that lacks a planned column.
pub(crate) fn wrong_column(name: &str) -> Failure {
    Failure::state(format!("the batch has no column {name} of the type that Spark expects"))
}
