//! Errors of the source and sink: client errors, data loss and replay mismatches.

use samsarrow_client::error::Error as Client;

/// Result of a fallible call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of the source or sink.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An invalid option, or an error of the client or of a broker.
    #[error(transparent)]
    Client(#[from] Client),
    /// Records in the requested range are no longer available.
    #[error("{0}; failOnDataLoss=false continues with the available records")]
    DataLoss(String),
    /// A schema of a streaming query has a newer version, and the option `evolution` ends the query then.
    #[error("{0}")]
    SchemaEvolved(String),
    /// A micro-batch cannot be written exactly once, because its rows differ from those of an earlier attempt or
    /// because later micro-batches are already written.
    #[error("{0}")]
    ReplayMismatch(String),
}

impl Error {
    /// Creates an error for an invalid option.
    pub fn configuration(text: impl Into<String>) -> Self {
        Self::Client(Client::configuration(text))
    }

    /// Returns the kind of the error: `configuration`, `data_loss` or `kafka`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Client(Client::Configuration(_)) => "configuration",
            Self::Client(_) | Self::ReplayMismatch(_) | Self::SchemaEvolved(_) => "kafka",
            Self::DataLoss(_) => "data_loss",
        }
    }

    /// Returns the name of the exception class in Python.
    pub fn name(&self) -> String {
        match self {
            Self::Client(error) => error.name(),
            Self::DataLoss(_) => "DataLossError".into(),
            Self::SchemaEvolved(_) => "SchemaEvolvedError".into(),
            Self::ReplayMismatch(_) => "ReplayMismatchError".into(),
        }
    }

    /// Returns true if the same call may succeed later.
    pub fn retriable(&self) -> bool {
        match self {
            Self::Client(error) => error.retriable(),
            Self::DataLoss(_) | Self::ReplayMismatch(_) | Self::SchemaEvolved(_) => false,
        }
    }
}

/// Returns an error if `fail` is set (`failOnDataLoss`); otherwise logs a warning.
///
/// # Errors
/// [`Error::DataLoss`] if `fail` is set.
pub fn report_loss(text: String, fail: bool) -> Result<()> {
    if fail {
        return Err(Error::DataLoss(text));
    }
    tracing::warn!("{text} (failOnDataLoss=false: continuing with the available records)");
    Ok(())
}
