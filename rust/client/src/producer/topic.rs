//! A topic with pending records: its metadata and the queues of its partitions.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;

use super::batch::BatchResult;
use super::metrics::SendCounters;
use super::partitioner::Sticky;
use super::queue::PartitionQueue;
use crate::cluster::metadata::Metadata;
use crate::error::Error;
use crate::metrics::Windows;

/// Topic and partition, as indices into the accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot {
    pub(crate) topic: usize,
    pub(crate) partition: usize,
}

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    /// Newest topic ID in the metadata, zero if unknown.
    pub(super) id: Uuid,
    /// Number of partitions. `partitions` may contain more queues, because a recreated topic can have fewer partitions
    /// than before.
    pub(super) count: usize,
    /// Counters of the topic's records.
    pub(super) counters: SendCounters,
    /// True if the newest metadata contains the topic. The metadata omits topics after a long time without writes.
    pub(super) known: bool,
    /// True if records were written since the last call of `topics_in_use`.
    pub(super) written: bool,
    pub(crate) partitions: Vec<PartitionQueue>,
    pub(super) available: Vec<i32>,
    /// Available partitions whose leader is in the rack of this client, if it prefers them.
    pub(super) in_rack: Vec<i32>,
    /// Maximum size of a batch before compression, once the broker has rejected a batch as too large (KIP-126).
    pub(super) accepted_batch_size: usize,
    pub(super) sticky: Sticky,
}

impl Topic {
    /// Creates a topic without metadata.
    pub(super) fn new(name: Arc<str>, windows: Windows) -> Self {
        Self {
            name,
            id: Uuid::ZERO,
            count: 0,
            counters: SendCounters::new(windows),
            known: true,
            written: true,
            partitions: Vec::new(),
            available: Vec::new(),
            in_rack: Vec::new(),
            accepted_batch_size: usize::MAX,
            sticky: Sticky::default(),
        }
    }

    /// Returns the number of partitions.
    pub(crate) fn count(&self) -> i32 {
        self.count as i32
    }

    /// Fails the waiting batches of a partition that the topic no longer has.
    pub(super) fn fail_removed_partition(&mut self, partition: usize, results: &mut Vec<BatchResult>) {
        let context = format!(
            "Produce to {}-{partition}: the topic was recreated with fewer partitions ({})",
            self.name, self.count
        );
        let error = Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context);
        if let Some(queue) = self.partitions.get_mut(partition) {
            queue.abort_waiting(&error, results);
        }
    }

    /// Updates ID, leaders and partition count from the cluster's metadata. `rack` is the preferred rack.
    pub(super) fn update(&mut self, metadata: &Metadata, rack: Option<&str>) {
        let known = metadata.topic(&self.name);
        self.known = known.is_some();
        let Some(known) = known else { return };
        let recreated = !self.id.is_zero() && !known.topic_id.is_zero() && self.id != known.topic_id;
        if !known.topic_id.is_zero() {
            self.id = known.topic_id;
        }
        if recreated {
            self.sticky = Sticky::default();
            self.accepted_batch_size = usize::MAX;
            self.partitions.iter_mut().for_each(PartitionQueue::recreated);
        }
        // The partition count of a topic only grows, unless the topic was recreated. A smaller count comes from a stale
        // broker and is ignored.
        self.count = if recreated { known.partitions.len() } else { self.count.max(known.partitions.len()) };
        for partition in &known.partitions {
            let Ok(at) = usize::try_from(partition.partition) else { continue };
            // A valid response contains all partitions from 0 on, so a larger index is invalid.
            if at >= known.partitions.len() {
                continue;
            }
            while self.partitions.len() <= at {
                self.partitions.push(PartitionQueue::default());
            }
            if let Some(queue) = self.partitions.get_mut(at) {
                queue.leader = (partition.leader >= 0).then_some(partition.leader);
            }
        }
        self.available.clear();
        let led = known.partitions.iter().filter(|partition| partition.leader >= 0);
        self.available.extend(led.clone().map(|partition| partition.partition));
        self.in_rack.clear();
        if let Some(rack) = rack {
            let near = led.filter(|partition| metadata.racks.get(&partition.leader).is_some_and(|own| own == rack));
            self.in_rack.extend(near.map(|partition| partition.partition));
        }
    }
}

/// Returns the error for a partition that the topic does not have.
pub(crate) fn no_such_partition(topic: &str, partition: i32, count: usize) -> Error {
    let existing = match count {
        0 => "its metadata names none".to_owned(),
        1 => "it has only partition 0".to_owned(),
        _ => format!("its {count} partitions are 0 to {}", count - 1),
    };
    Error::configuration(format!("topic {topic} has no partition {partition}: {existing}"))
}

/// Returns the error for a topic that has disappeared from the metadata.
pub(crate) fn topic_missing(topic: &str) -> Error {
    Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, format!("topic {topic} (its metadata names no partitions)"))
}
