//! The write path: records and Arrow columns → batches → brokers → receipts.

pub(crate) mod accumulator;
pub(crate) mod collect;
pub(crate) mod columns;
pub(crate) mod counters;
mod delivery;
mod encoder;
pub(crate) mod flush;
mod identity;
pub(crate) mod memory;
pub(crate) mod partitioner;
pub(crate) mod queue;
#[cfg(test)]
mod queue_tests;
mod record;
mod request;
mod ship;
pub(crate) mod sink;
mod split;
pub(crate) mod transaction;

pub use delivery::{BatchDelivery, Delivery, PartOutcome, Watcher};
pub use record::{PartitionReceipt, ProducerRecord, RecordMetadata, RecordRef};
pub use transaction::GroupMember;
