//! Errors from decoding batches.
use super::records::RecordError;
use crate::compression::{Codec, CompressionError};

/// A batch that cannot be decoded, with its position and the cause.
#[derive(Debug, thiserror::Error)]
#[error("record batch with base offset {base_offset} (at byte {position}): {kind}")]
pub struct BatchError {
    /// The base offset in the header.
    pub base_offset: i64,
    /// Start of the batch in the input.
    pub position: usize,
    /// The cause.
    #[source]
    pub kind: BatchErrorKind,
}

/// Causes of a batch error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchErrorKind {
    /// The length field is smaller than a header.
    #[error("length {length} is below that of a header; the data is corrupt")]
    Length {
        /// The length field.
        length: i32,
    },
    /// The position of the next batch is past the end of the data.
    #[error("it would start beyond the {len} bytes of the data")]
    Beyond {
        /// Length of the data in bytes.
        len: usize,
    },
    /// A message of format v0 or v1 violates the format.
    #[error("{0}; the data is corrupt")]
    Legacy(#[from] LegacyError),
    /// The magic byte is not a known message format.
    #[error("magic {magic} is unknown (Kafka has 0, 1 and 2); the data is corrupt or newer than this library")]
    UnknownMagic {
        /// The magic byte.
        magic: i8,
    },
    /// The computed checksum differs from the one in the header.
    #[error("the CRC is {actual:#010x}, the header says {expected:#010x}; the data is corrupt")]
    Crc {
        /// The checksum in the header.
        expected: u32,
        /// The checksum computed from the bytes.
        actual: u32,
    },
    /// The attributes contain an unknown codec.
    #[error("compression codec {id} is unknown (Kafka has 0 to 4)")]
    Codec {
        /// The codec bits.
        id: i16,
    },
    /// The records cannot be decompressed, or would exceed the size limit.
    #[error("cannot decompress: {0}")]
    Decompress(#[source] CompressionError),
    /// The header's last offset delta is negative, or the last offset exceeds the largest possible offset.
    #[error("last offset delta {last_offset_delta} is out of range; the data is corrupt")]
    Offsets {
        /// The last offset delta.
        last_offset_delta: i32,
    },
    /// A record is malformed, or the number of records differs from the record count in the header.
    #[error("{0}; the data is corrupt")]
    Record(#[from] RecordError),
}

/// A message of format v0 or v1 that violates the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LegacyError {
    /// A field of the message is malformed.
    #[error("message {index}: {what} is malformed")]
    Field {
        /// Index of the message in the set.
        index: usize,
        /// Name of the field.
        what: &'static str,
    },
    /// The checksum of a message inside a wrapper is wrong. A wrong checksum of the wrapper itself is
    /// `BatchErrorKind::Crc`.
    #[error("message {index} of a compressed set: the CRC is {actual:#010x}, the message says {expected:#010x}")]
    InnerCrc {
        /// Index of the message in the set.
        index: usize,
        /// The checksum in the message.
        expected: u32,
        /// The checksum computed from the message's bytes.
        actual: u32,
    },
    /// A compressed message inside a compressed message.
    #[error("a compressed message holds another compressed message, which Kafka does not allow")]
    Nested,
    /// A wrapper without a value.
    #[error("a compressed message has a null value")]
    NullWrapper,
    /// A wrapper without messages.
    #[error("a compressed message holds no messages")]
    EmptyWrapper,
    /// The wrapper's offset is smaller than the offset of the last message in it.
    #[error("a compressed message has offset {wrapper}, which is below that of the last message in it, {last}")]
    WrapperOffset {
        /// The wrapper's offset.
        wrapper: i64,
        /// The offset of the last message, as stored.
        last: i64,
    },
    /// The offsets in a wrapper span a larger range than a batch allows.
    #[error("the offsets in a compressed message are out of range")]
    Offsets,
    /// The codec requires a newer message format.
    #[error("a message of magic {magic} is compressed with {}, which needs magic 2", codec.name())]
    Codec {
        /// Message format of the batch, 0 or 1.
        magic: i8,
        /// The codec.
        codec: Codec,
    },
}
