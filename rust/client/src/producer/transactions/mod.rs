//! Transactions of a producer: state, operations, and requests to the coordinators.

mod coordinator;
mod error;
mod offsets;
mod operations;
mod partitions;
mod shared;
pub(crate) mod state;

pub(super) use coordinator::{fenced_or, too_old};
pub(crate) use offsets::send as send_offsets;
pub use offsets::{GroupMember, TopicIdsByName};
pub use operations::BeginTransaction;
pub(crate) use operations::{abort_on_close, begin, cancel_begin, perform};
pub(crate) use partitions::register;
pub(crate) use shared::Transactions;
pub(super) use shared::{NO_TIMEOUT, OFFSETS_V2, with_protocol};
