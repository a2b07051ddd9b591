//! Fetched bytes to record batches: a task per broker asks, decodes and queues; `poll` takes.

mod cursor;
mod decode;
mod positions;
mod queue;
mod request;
mod rows;
mod source;
mod state;

pub(crate) use decode::decode_options;
pub use rows::positions_of;
pub(crate) use source::Fetcher;
