//! Data that cannot be decoded.
use std::sync::Arc;

use arrow_schema::ArrowError;
use samsarrow_wire::batch::{BatchError, BatchErrorKind};

use super::Appended;

/// Data that cannot be decoded: where, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}{cause}", self.place())]
pub struct DecodeError {
    /// The topic, if the caller named one.
    pub topic: Option<Arc<str>>,
    /// The partition, -1 if the caller named none.
    pub partition: i32,
    /// The offset at which decoding stopped.
    pub offset: i64,
    /// Why.
    #[source]
    pub cause: DecodeCause,
    /// What was appended before the bad batch, and remains in the decoder.
    pub appended: Appended,
}

impl DecodeError {
    fn place(&self) -> String {
        let Some(topic) = &self.topic else { return String::new() };
        format!("topic {topic}, partition {}, offset {}: ", self.partition, self.offset)
    }
}

/// Why data cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeCause {
    /// A batch is bad.
    #[error(transparent)]
    Batch(Box<BatchError>),
    /// The records of one record batch do not fit into one Arrow batch.
    #[error("a record batch with {bytes} bytes of records is more than one Arrow batch can hold ({limit} bytes)")]
    TooLarge {
        /// Bytes of the records.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The data does not fit into one Arrow batch.
    #[error(
        "the records come to more than the {limit} bytes that one Arrow batch can hold, {consumed} bytes of the data are \
         as many as fit; decode these, then those behind them"
    )]
    Full {
        /// Bytes of the data that hold what fits.
        consumed: usize,
        /// The most bytes of records.
        limit: usize,
    },
    /// Arrow refuses the columns.
    #[error("Arrow: {0}")]
    Arrow(#[from] ArrowError),
}

impl DecodeCause {
    /// Whether the data is bad, and not merely more than fits.
    pub fn is_corrupt(&self) -> bool {
        matches!(self, DecodeCause::Batch(_))
    }
}

impl DecodeError {
    /// The consumer's option that allows more, where a batch was to expand beyond a limit.
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
