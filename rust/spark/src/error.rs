//! What goes wrong: the client's own errors, records that are gone, micro-batches that cannot be repeated.

use samsarrow_client::error::Error as Client;

/// Result of what may go wrong.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Of the client, of options or of brokers.
    #[error(transparent)]
    Client(#[from] Client),
    /// Records that were to be read are not there any more.
    #[error("{0}; failOnDataLoss=false continues with the available records")]
    DataLoss(String),
    /// A micro-batch cannot be written exactly once: it brings other rows than before, or later ones are written.
    #[error("{0}")]
    ReplayMismatch(String),
}

impl Error {
    /// An option that cannot be.
    pub fn configuration(text: impl Into<String>) -> Self {
        Self::Client(Client::configuration(text))
    }

    /// Which sort of failure it is: `configuration`, `data_loss` or `kafka`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Client(Client::Configuration(_)) => "configuration",
            Self::Client(_) | Self::ReplayMismatch(_) => "kafka",
            Self::DataLoss(_) => "data_loss",
        }
    }

    /// Name of the exception class in Python.
    pub fn name(&self) -> String {
        match self {
            Self::Client(error) => error.name(),
            Self::DataLoss(_) => "DataLossError".into(),
            Self::ReplayMismatch(_) => "ReplayMismatchError".into(),
        }
    }

    /// Whether the same call may succeed later.
    pub fn retriable(&self) -> bool {
        match self {
            Self::Client(error) => error.retriable(),
            Self::DataLoss(_) | Self::ReplayMismatch(_) => false,
        }
    }
}

/// An error with `failOnDataLoss`, else a warning in the log.
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
