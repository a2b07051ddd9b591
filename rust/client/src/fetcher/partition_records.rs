//! Records of one partition in a response, cut at batch ends.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use samsarrow_wire::batch::AbortedTransactions;

use super::queue::Epochs;
use crate::types::TopicPartition;

/// Whole batches of one partition, and how to read them.
#[derive(Debug)]
pub(super) struct PartitionRecords {
    pub(super) tp: TopicPartition,
    /// Of the cursor.
    pub(super) version: u64,
    /// Records before it are not wanted.
    pub(super) from: i64,
    pub(super) epochs: Epochs,
    pub(super) records: Bytes,
    /// Set if any batch is compressed.
    pub(super) compressed: bool,
    /// For `read_committed`, where transactions were aborted; shared by all parts of a partition in one answer, which are
    /// decoded in their order.
    pub(super) aborted: Option<Arc<Mutex<AbortedTransactions>>>,
}
