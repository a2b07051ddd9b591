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
