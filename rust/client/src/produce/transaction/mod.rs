//! What a transactional producer may do now, and what it asks its coordinator. Nothing in here knows of records: what is
//! done with them is the matter of `transact`.

mod coordinator;
pub(crate) mod state;
mod transactions;

pub(super) use coordinator::{fenced_or, too_old};
pub(crate) use transactions::Transactions;
pub(super) use transactions::{FOREVER, OFFSETS_V2, PRODUCE_V2, within};
