//! A batch or record that cannot be built.
use crate::batch::error::{BatchErrorKind, LegacyError};
use crate::compression::CompressionError;

/// A batch or record that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// Kafka's lengths have 31 bits.
    #[error("a record of {size} bytes is larger than a batch can be (2 GiB)")]
    RecordTooLarge {
        /// Its size.
        size: usize,
    },
    /// The codec failed.
    #[error("cannot compress the batch: {0}")]
    Compress(#[from] CompressionError),
    /// Bytes to be patched or converted are no batch.
    #[error("not a complete batch: {0}")]
    NotABatch(BatchErrorKind),
    /// A format that does not exist.
    #[error("there is no message format with magic {magic}; Kafka has 0, 1 and 2")]
    Magic {
        /// The magic asked for.
        magic: i8,
    },
    /// Headers came with Kafka 0.11.
    #[error("a record has headers, which messages of magic {magic} cannot hold; send it without, or with magic 2")]
    Headers {
        /// The format.
        magic: i8,
    },
    /// Transactions came with Kafka 0.11.
    #[error("a batch is part of a transaction, which messages of magic {magic} cannot say; write magic 2")]
    Transactional {
        /// The format.
        magic: i8,
    },
    /// The format's rules do not allow it.
    #[error("{0}")]
    Legacy(LegacyError),
}
