//! Producer metrics derived from completed, retried and failed batches.

use std::sync::Arc;
use std::time::Instant;

use super::accumulator::Accumulator;
use super::batch::Batch;
use super::queue::PartitionQueue;
use super::topic::Slot;
use crate::metrics::{Id, Label, Sink};

impl Accumulator {
    /// Counts an acknowledged batch.
    pub(crate) fn count_delivered(&mut self, slot: Slot, batch: &Batch, now: Instant) {
        self.counters.delivered(now, batch.count, batch.size(), now.saturating_duration_since(batch.created));
        if let Some(topic) = self.topics.get_mut(slot.topic) {
            topic.counters.delivered(now, batch.count, batch.size());
        }
    }

    /// Counts a batch of `records` records that is sent again.
    pub(crate) fn count_retried(&mut self, slot: Slot, records: u32, now: Instant) {
        self.counters.all.retried(now, records);
        if let Some(topic) = self.topics.get_mut(slot.topic) {
            topic.counters.retried(now, records);
        }
    }

    /// Counts failed records of a topic.
    pub(crate) fn count_failed(&mut self, topic: &str, records: u32, now: Instant) {
        self.counters.all.failed(now, records);
        if let Some(topic) = self.index.get(topic).and_then(|at| self.topics.get_mut(*at)) {
            topic.counters.failed(now, records);
        }
    }

    /// Returns the number of records that have no result yet.
    pub(crate) fn incomplete_records(&self) -> u64 {
        let appended: u64 =
            self.topics.iter().flat_map(|topic| &topic.partitions).map(PartitionQueue::next_order).sum();
        appended.saturating_sub(self.counters.all.completed())
    }

    /// Collects all metrics of the producer.
    pub(crate) fn collect_metrics(&self, sink: &mut Sink) {
        self.counters.collect(sink);
        sink.unlabeled(Id::QueuedRecords, self.incomplete_records() as f64);
        for topic in &self.topics {
            topic.counters.collect_topic(&Label::Topic(Arc::clone(&topic.name)), sink);
        }
    }
}
