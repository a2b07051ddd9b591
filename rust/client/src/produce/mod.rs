//! The write path: records and Arrow columns → batches → brokers → receipts.

mod abandon;
pub(crate) mod accumulator;
mod answers;
pub(crate) mod batch;
mod batch_state;
pub(crate) mod collect;
pub(crate) mod columns;
pub(crate) mod counters;
mod delivery;
mod encoder;
pub(crate) mod flush;
mod identity;
mod measure;
pub(crate) mod memory;
pub(crate) mod partitioner;
mod plan;
pub(crate) mod queue;
mod record;
mod request;
mod send_batch;
pub(crate) mod shared;
mod ship;
pub(crate) mod sink;
mod split;
pub(crate) mod topic;
pub(crate) mod transact;
pub(crate) mod transaction;
pub(crate) mod unread;

pub use batch_state::Watcher;
pub use delivery::{BatchDelivery, Delivery, PartOutcome};
pub use record::{PartitionReceipt, ProducerRecord, RecordMetadata, RecordRef};
pub use send_batch::SendBatch;
pub use transact::{BeginTransaction, GroupMember};
