//! Message formats v0 and v1, used before Kafka 0.11.
//!
//! A partition's bytes are a sequence of messages, each with its own offset and checksum. A compressed message, a
//! *wrapper*, contains a set of messages in its value; its offset is that of the last of them. The offsets inside are
//! absolute in v0 and relative in v1: the difference between the last one and the wrapper's offset is added to each.
//! [`MessageSet`] converts them and reads the messages to the same [`Block`](super::Block)s as those of a batch;
//! [`LegacyBuilder`] encodes both formats.
mod encode;
mod message;
mod set;

pub(super) use encode::write_crc;
pub use encode::{LegacyBuilder, LegacyOptions, convert};
pub use message::Message;
pub use set::{LegacyDecompressor, MessageSet};
