//! Message formats v0 and v1, used before Kafka 0.11.
//!
//! A partition's bytes are a sequence of messages, each with its own offset and checksum. The value of a compressed
//! message, called a *wrapper*, contains a set of messages. The wrapper's offset is the absolute offset of its last
//! message. Messages in a wrapper have absolute offsets in v0 and relative offsets in v1; to convert relative offsets,
//! the difference between the wrapper's offset and the last relative offset is added to each of them. [`MessageSet`]
//! converts the offsets and parses the messages into [`Block`](super::Block)s, which are also used for v2 batches;
//! [`LegacyBuilder`] encodes both formats.
mod encode;
mod message;
mod set;

pub(super) use encode::write_crc;
pub use encode::{LegacyBuilder, LegacyOptions, convert};
pub use message::Message;
pub use set::{LegacyDecompressor, MessageSet};
