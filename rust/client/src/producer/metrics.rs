//! Metrics of a producer. Counters are updated once per batch, under a lock that is held anyway.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::accumulator::Accumulator;
use super::batch::Batch;
use super::queue::PartitionQueue;
use super::topic::Slot;
use crate::metrics::{Histogram, Id, Label, Meter, MeterIds, Sink, Windows};

/// Record counters of a producer or of one topic.
#[derive(Debug, Default)]
pub(crate) struct SendCounters {
    /// Records acknowledged by brokers.
    pub(crate) records: Meter,
    /// Compressed bytes of acknowledged batches.
    bytes: Meter,
    /// Records sent again.
    retried: Meter,
    failed: Meter,
}

impl SendCounters {
    pub(crate) fn new(windows: Windows) -> Self {
        let meter = || Meter::new(windows);
        Self { records: meter(), bytes: meter(), retried: meter(), failed: meter() }
    }

    /// Counts an acknowledged batch.
    pub(crate) fn delivered(&mut self, now: Instant, records: u32, bytes: usize) {
        self.records.add(now, f64::from(records));
        self.bytes.add(now, bytes as f64);
    }

    /// Counts a batch that is sent again.
    pub(crate) fn retried(&mut self, now: Instant, records: u32) {
        self.retried.add(now, f64::from(records));
    }

    pub(crate) fn failed(&mut self, now: Instant, records: u32) {
        self.failed.add(now, f64::from(records));
    }

    /// Returns the number of records that were delivered or have failed.
    pub(crate) fn completed(&self) -> u64 {
        (self.records.sum + self.failed.sum) as u64
    }

    pub(crate) fn collect_topic(&self, label: &Label, sink: &mut Sink) {
        let names = [
            (&self.records, Id::TopicRecordSendTotal, Id::TopicRecordSendRate),
            (&self.bytes, Id::TopicByteTotal, Id::TopicByteRate),
            (&self.retried, Id::TopicRecordRetryTotal, Id::TopicRecordRetryRate),
            (&self.failed, Id::TopicRecordErrorTotal, Id::TopicRecordErrorRate),
        ];
        for (meter, sum, rate) in names {
            sink.meter(meter, label, MeterIds { sum: Some(sum), rate: Some(rate), ..MeterIds::default() });
        }
    }
}

/// Counters and latencies of a producer.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) windows: Windows,
    pub(crate) all: SendCounters,
    /// Milliseconds that batches waited before they were sent.
    queued: Meter,
    /// Milliseconds from a request to its response.
    requests: Meter,
    per_request: Meter,
    request_latency: Histogram,
    delivery_latency: Histogram,
}

impl Counters {
    pub(crate) fn new(windows: Windows) -> Self {
        let meter = || Meter::new(windows);
        let all = SendCounters::new(windows);
        Self { windows, all, queued: meter(), requests: meter(), per_request: meter(), ..Self::default() }
    }

    /// Counts an acknowledged batch.
    pub(crate) fn delivered(&mut self, now: Instant, records: u32, bytes: usize, age: Duration) {
        self.all.delivered(now, records, bytes);
        self.delivery_latency.add(age, u64::from(records));
    }

    /// Counts a completed request, which has a response or was written with `acks=0`. `queue_times` are the times that
    /// the batches of the request waited before they were sent, and `records` is the number of records in these
    /// batches.
    pub(crate) fn request_completed(
        &mut self,
        started: Instant,
        queue_times: impl Iterator<Item = Duration>,
        records: u64,
    ) {
        let now = Instant::now();
        let took = now.saturating_duration_since(started);
        self.requests.add(now, took.as_secs_f64() * 1e3);
        self.request_latency.add(took, 1);
        self.per_request.add(now, records as f64);
        for time in queue_times {
            self.queued.add(now, time.as_secs_f64() * 1e3);
        }
    }

    pub(crate) fn collect(&self, sink: &mut Sink) {
        let none = &Label::None;
        let SendCounters { records, bytes, retried, failed } = &self.all;
        let names = [
            (records, Id::RecordSendTotal, Id::RecordSendRate),
            (retried, Id::RecordRetryTotal, Id::RecordRetryRate),
            (failed, Id::RecordErrorTotal, Id::RecordErrorRate),
        ];
        for (meter, sum, rate) in names {
            sink.meter(meter, none, MeterIds { sum: Some(sum), rate: Some(rate), ..MeterIds::default() });
        }
        let names = MeterIds {
            sum: Some(Id::ProducedBytes),
            count: Some(Id::ProducedBatches),
            mean: Some(Id::BatchSizeAvg),
            max: Some(Id::BatchSizeMax),
            ..MeterIds::default()
        };
        sink.meter(bytes, none, names);
        sink.unlabeled(Id::BatchRetries, retried.count as f64);
        let names = MeterIds {
            count: Some(Id::ProduceRequests),
            mean: Some(Id::RequestLatencyAvg),
            max: Some(Id::RequestLatencyMax),
            ..MeterIds::default()
        };
        sink.meter(&self.requests, none, names);
        sink.meter(&self.per_request, none, MeterIds { mean: Some(Id::RecordsPerRequestAvg), ..MeterIds::default() });
        let names =
            MeterIds { mean: Some(Id::RecordQueueTimeAvg), max: Some(Id::RecordQueueTimeMax), ..MeterIds::default() };
        sink.meter(&self.queued, none, names);
        sink.latency(Id::ProduceLatency, Label::None, self.request_latency.summary());
        sink.latency(Id::DeliveryLatency, Label::None, self.delivery_latency.summary());
    }
}

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
