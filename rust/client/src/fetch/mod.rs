//! Fetched bytes to record batches: a task per broker asks, decodes and queues; `poll` takes.

mod answer;
mod cores;
mod cursor;
mod decode;
mod leaders;
mod partition;
mod positions;
mod queue;
mod request;
mod rows;
mod session;
mod source;
mod state;
mod supervise;

pub(crate) use decode::decode_options;
pub use rows::positions_of;
pub(crate) use state::Shared;
pub(crate) use supervise::Fetcher;
