//! The message formats v0 and v1, from before Kafka 0.11.
//!
//! A partition's bytes are messages one after the other, each with its own offset and checksum. A compressed message, a
//! *wrapper*, holds a set of messages in its value; its offset is that of the last of them. In v0 the offsets in there
//! are absolute, in v1 relative: the last one plus something gives the wrapper's. [`MessageSet`] makes one of the other
//! and walks the messages in the same [`Block`](super::Block)s as those of a batch; [`LegacyBuilder`] writes both
//! formats.
mod encode;
mod message;
mod set;

pub(super) use encode::write_crc;
pub use encode::{LegacyBuilder, LegacyOptions, convert};
pub use message::Message;
pub use set::{LegacyDecompressor, MessageSet};

use crate::compression::Codec;

/// A message of the formats v0 and v1 that breaks their rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LegacyError {
    /// A field is out of its bounds.
    #[error("message {index}: {what} is malformed")]
    Field {
        /// Which message of the set, from 0.
        index: usize,
        /// Which field.
        what: &'static str,
    },
    /// The checksum of a message in a wrapper differs; that of the wrapper is another error.
    #[error("message {index} of a compressed set: the CRC is {actual:#010x}, the message says {expected:#010x}")]
    InnerCrc {
        /// Which message of the set, from 0.
        index: usize,
        /// The checksum in the message.
        expected: u32,
        /// The checksum of its bytes.
        actual: u32,
    },
    /// Compressed messages in a compressed message.
    #[error("a compressed message holds another compressed message, which Kafka does not allow")]
    Nested,
    /// A wrapper without a value.
    #[error("a compressed message has a null value")]
    NullWrapper,
    /// A wrapper without messages.
    #[error("a compressed message holds no messages")]
    EmptyWrapper,
    /// The wrapper's offset is below that of its last message.
    #[error("a compressed message has offset {wrapper}, which is below that of the last message in it, {last}")]
    WrapperOffset {
        /// The wrapper's offset.
        wrapper: i64,
        /// The offset of the last message, as it is written.
        last: i64,
    },
    /// Offsets in a wrapper are further apart than a batch allows.
    #[error("the offsets in a compressed message are out of range")]
    Offsets,
    /// A codec that came later than the format.
    #[error("a message of magic {magic} is compressed with {}, which needs magic 2", codec.name())]
    Codec {
        /// The format.
        magic: i8,
        /// The codec.
        codec: Codec,
    },
}
