//! What the calls of a transactional producer do, with its records and its coordinator.

mod calls;
mod failure;
mod offsets;
mod partitions;
mod transactional;
mod version;

pub use calls::BeginTransaction;
pub(crate) use calls::{begin, cancel_begin, leave, perform};
pub use offsets::GroupMember;
pub(crate) use offsets::send as send_offsets;
pub(crate) use partitions::register;
