//! Fetched bytes to record batches: a task per broker asks, decodes and queues; `poll` takes.

mod answer;
mod asked;
mod calls;
mod cores;
mod cursor;
mod decode;
mod leaders;
mod old_topics;
mod outlet;
mod packing;
mod part;
mod partition;
mod places;
mod positions;
mod queue;
mod recreated;
mod request;
mod room;
mod rounds;
mod rows;
mod session;
mod shared;
mod source;
mod starts;
mod state;
mod supervise;
mod validate;
mod withheld;

pub use calls::Bounds;
pub(crate) use decode::decode_options;
pub use rows::{NextOffset, Rows, RowsEnd, ends_of_rows, offsets_of_rows};
pub(crate) use shared::Shared;
pub(crate) use supervise::Fetcher;
