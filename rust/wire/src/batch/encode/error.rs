//! Errors from building batches and records.
use crate::batch::error::{BatchErrorKind, LegacyError};
use crate::compression::CompressionError;

/// An error from building a batch or a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The record is larger than Kafka's signed 32-bit lengths allow.
    #[error("a record of {size} bytes is larger than a batch can be (2 GiB)")]
    RecordTooLarge {
        /// Encoded size of the record in bytes.
        size: usize,
    },
    /// The codec failed.
    #[error("cannot compress the batch: {0}")]
    Compress(#[from] CompressionError),
    /// The bytes to patch or to convert are not a batch.
    #[error("not a complete batch: {0}")]
    NotABatch(BatchErrorKind),
    /// The requested magic is not a known message format.
    #[error("there is no message format with magic {magic}; Kafka has 0, 1 and 2")]
    Magic {
        /// The requested magic.
        magic: i8,
    },
    /// The record has headers, which require magic 2.
    #[error("a record has headers, which messages of magic {magic} cannot hold; send it without, or with magic 2")]
    Headers {
        /// The format.
        magic: i8,
    },
    /// The batch is transactional, which requires magic 2.
    #[error("a batch is part of a transaction, which messages of magic {magic} do not support; write magic 2")]
    Transactional {
        /// The format.
        magic: i8,
    },
    /// The message would violate the format v0 or v1.
    #[error("{0}")]
    Legacy(LegacyError),
}
