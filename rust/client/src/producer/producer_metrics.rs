//! What is counted where batches are taken, sent again and failed.

use std::sync::Arc;
use std::time::Instant;

use super::accumulator::Accumulator;
use super::batch::Batch;
use super::queue::PartitionQueue;
use super::topic::Slot;
use crate::metrics::{Id, Label, Sink};

impl Accumulator {
    /// A broker has taken a batch.
    pub(crate) fn count_taken(&mut self, slot: Slot, batch: &Batch, now: Instant) {
        self.counters.taken(now, batch.count, batch.size(), now.saturating_duration_since(batch.created));
        if let Some(topic) = self.topics.get_mut(slot.topic) {
            topic.counted.taken(now, batch.count, batch.size());
        }
    }

    /// A batch of this many records has to be sent again.
    pub(crate) fn count_retried(&mut self, slot: Slot, records: u32, now: Instant) {
        self.counters.all.retried(now, records);
        if let Some(topic) = self.topics.get_mut(slot.topic) {
            topic.counted.retried(now, records);
        }
    }

    /// Records of a topic failed for good.
    pub(crate) fn count_failed(&mut self, topic: &str, records: u32, now: Instant) {
        self.counters.all.failed(now, records);
        if let Some(topic) = self.index.get(topic).and_then(|at| self.topics.get_mut(*at)) {
            topic.counted.failed(now, records);
        }
    }

    /// Records that were given and have no result yet.
    pub(crate) fn unsettled(&self) -> u64 {
        let given: u64 = self.topics.iter().flat_map(|topic| &topic.partitions).map(PartitionQueue::place).sum();
        given.saturating_sub(self.counters.all.settled())
    }

    /// What was done so far.
    pub(crate) fn measure(&self, sink: &mut Sink) {
        self.counters.collect(sink);
        sink.unlabeled(Id::QueuedRecords, self.unsettled() as f64);
        for topic in &self.topics {
            topic.counted.collect_of_topic(&Label::Topic(Arc::clone(&topic.name)), sink);
        }
    }
}
