//! Records of one partition in a response, split at batch boundaries.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use samsarrow_wire::batch::AbortedTransactions;

use super::queue::Epochs;
use crate::types::TopicPartition;

/// Complete batches of one partition, with their decoding parameters.
#[derive(Debug)]
pub(super) struct PartitionRecords {
    pub(super) tp: TopicPartition,
    /// Version of the partition's cursor when the records were requested.
    pub(super) version: u64,
    /// First offset to decode. Earlier records in the batches are skipped.
    pub(super) from: i64,
    pub(super) epochs: Epochs,
    pub(super) records: Bytes,
    /// True if any batch is compressed.
    pub(super) compressed: bool,
    /// Aborted transactions for `read_committed`. All pieces of the partition in one response share them and are
    /// decoded in order.
    pub(super) aborted: Option<Arc<Mutex<AbortedTransactions>>>,
}
