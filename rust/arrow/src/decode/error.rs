//! Errors of decoding.
use std::sync::Arc;

use arrow_schema::ArrowError;
use samsarrow_wire::batch::{BatchError, BatchErrorKind};

use super::Appended;

/// Data that cannot be decoded, with its position and the cause.
#[derive(Debug, thiserror::Error)]
#[error("{}{cause}", self.location())]
pub struct DecodeError {
    /// The topic, if known.
    pub topic: Option<Arc<str>>,
    /// The partition; -1 if unknown.
    pub partition: i32,
    /// The offset at which decoding stopped. It follows the last record that was appended or skipped.
    pub offset: i64,
    /// The cause.
    #[source]
    pub cause: DecodeCause,
    /// Result of appending the rows before the invalid batch. These rows remain in the decoder.
    pub appended: Appended,
}

impl DecodeError {
    fn location(&self) -> String {
        let Some(topic) = &self.topic else { return String::new() };
        format!("topic {topic}, partition {}, offset {}: ", self.partition, self.offset)
    }
}

/// Causes of a decode error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeCause {
    /// A batch is invalid.
    #[error(transparent)]
    Batch(Box<BatchError>),
    /// The records of a single record batch do not fit into one Arrow batch.
    #[error("a record batch with {bytes} bytes of records is more than one Arrow batch can hold ({limit} bytes)")]
    TooLarge {
        /// Size of the records in bytes.
        bytes: usize,
        /// Maximum size.
        limit: usize,
    },
    /// The data does not fit into one Arrow batch.
    #[error(
        "the records exceed the {limit} bytes that one Arrow batch can hold; decode the first {consumed} bytes of the \
         data, then the rest"
    )]
    Full {
        /// Size in bytes of the data that fits.
        consumed: usize,
        /// Maximum size of the records in bytes.
        limit: usize,
    },
    /// Arrow rejected the columns.
    #[error("Arrow: {0}")]
    Arrow(#[from] ArrowError),
}

impl DecodeCause {
    /// Returns true if the data is corrupt, false if it only exceeds a limit.
    pub fn is_corrupt(&self) -> bool {
        matches!(self, DecodeCause::Batch(_))
    }
}

impl DecodeError {
    /// Returns the consumer option that raises the exceeded limit, if there is one.
    pub fn option(&self) -> Option<&'static str> {
        match &self.cause {
            DecodeCause::Batch(error) => match &error.kind {
                BatchErrorKind::Decompress(error) => error.option(),
                _ => None,
            },
            _ => None,
        }
    }
}

impl From<BatchError> for DecodeCause {
    fn from(error: BatchError) -> Self {
        DecodeCause::Batch(Box::new(error))
    }
}
