//! Fetching: one task per broker requests records, decodes them and queues the batches for `poll`.

mod chunk_sink;
mod consumer_api;
mod cursor;
mod decode;
mod decode_pool;
mod decode_slots;
mod deferred_decode;
mod epoch_validation;
mod fetch_loop;
mod leader_lookup;
mod memory_budget;
mod offset_lookups;
mod offset_reset;
mod old_topics;
mod partition;
mod partition_records;
mod partition_request;
mod paused_buffer;
mod queue;
mod recreated_topics;
mod request;
mod response_reader;
mod rows;
mod session;
mod shared_state;
mod source;
mod state;
mod supervisor;

pub use consumer_api::Bounds;
pub(crate) use decode::{decode_error, decode_options};
pub(crate) use partition::not_in_log;
pub use rows::{NextOffset, Rows, RowsEnd, ends_of_rows, offsets_of_rows};
pub(crate) use rows::{Topics, column, equal_at_start};
pub(crate) use shared_state::Shared;
pub(crate) use supervisor::Fetcher;
