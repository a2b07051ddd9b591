//! One partition of a Fetch request.

use samsarrow_wire::messages::Uuid;

use crate::metrics::Event;
use crate::types::TopicPartition;

/// First version of Fetch with topic ids (KIP-516).
pub(super) const TOPIC_IDS_VERSION: i16 = 13;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FetchPartitionRequest {
    pub(super) tp: TopicPartition,
    pub(super) topic_id: Uuid,
    /// Version of the partition's cursor when the request was planned.
    pub(super) version: u64,
    pub(super) offset: i64,
    /// Leader epoch of the record before `offset`, which the broker compares with its log (KIP-320); -1 if it is
    /// unknown or need not be compared.
    pub(super) last_epoch: i32,
    /// Leader epoch of the partition in the client's metadata (KIP-320).
    pub(super) leader_epoch: i32,
    /// True if the request goes to a replica that is closer than the leader (KIP-392).
    pub(super) from_replica: bool,
}

#[cfg(test)]
impl FetchPartitionRequest {
    pub(super) fn new(tp: TopicPartition, version: u64, offset: i64) -> Self {
        Self { tp, topic_id: Uuid::ZERO, version, offset, last_epoch: -1, leader_epoch: -1, from_replica: false }
    }
}

impl FetchPartitionRequest {
    /// Returns the event that reports a position reset to the application.
    pub(super) fn reset(&self, reason: String) -> Event {
        Event::OffsetReset { partition: self.tp.clone(), offset: self.offset, reason }
    }
}
