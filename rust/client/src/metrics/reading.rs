//! Metrics of the records that a consumer reads, updated under the lock of the fetch state.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::histogram::Histogram;
use super::meter::{Meter, Windows};
use super::sample::{Label, MeterIds, Sink};
use super::table::Id;
use crate::collections::HashMap;

/// Metrics of the records of one topic.
#[derive(Debug)]
struct Topic {
    records: Meter,
    bytes: Meter,
}

/// Metrics of the records read by a consumer.
#[derive(Debug, Default)]
pub(crate) struct ReadMeters {
    windows: Windows,
    /// True if end-to-end latency is measured with the timestamp of each row instead of the timestamps of each batch.
    pub(crate) by_row: bool,
    /// Number of rows returned by polls.
    records: Meter,
    /// Size of Fetch responses in bytes.
    bytes: Meter,
    /// Number of records in Fetch responses.
    fetched: Meter,
    topics: HashMap<Arc<str>, Topic>,
    end_to_end: Histogram,
}

impl ReadMeters {
    pub(crate) fn new(windows: Windows, by_row: bool) -> Self {
        let meter = || Meter::new(windows);
        Self { windows, by_row, records: meter(), bytes: meter(), fetched: meter(), ..Self::default() }
    }

    fn topic(&mut self, name: &Arc<str>) -> &mut Topic {
        let new = || Topic { records: Meter::new(self.windows), bytes: Meter::new(self.windows) };
        self.topics.entry(Arc::clone(name)).or_insert_with(new)
    }

    /// Records the number of rows that a poll returns.
    pub(crate) fn rows_returned(&mut self, now: Instant, rows: usize) {
        self.records.add(now, rows as f64);
    }

    /// Records the number of rows of one topic that a poll returns.
    pub(crate) fn topic_rows_returned(&mut self, now: Instant, topic: &Arc<str>, rows: usize) {
        if rows > 0 {
            self.topic(topic).records.add(now, rows as f64);
        }
    }

    /// Records the size of one topic's data in a response.
    pub(crate) fn topic_bytes_received(&mut self, now: Instant, topic: &Arc<str>, bytes: usize) {
        if bytes > 0 {
            self.topic(topic).bytes.add(now, bytes as f64);
        }
    }

    /// Records the size of a Fetch response and the number of its records.
    pub(crate) fn response_received(&mut self, now: Instant, bytes: usize, records: u64) {
        self.bytes.add(now, bytes as f64);
        self.fetched.add(now, records as f64);
    }

    /// Records the age of a batch. Half of its records are counted with the base timestamp and half with the largest
    /// timestamp.
    ///
    /// Timestamps are in milliseconds since 1970. Batches without a timestamp are ignored.
    pub(crate) fn batch_age(&mut self, now_ms: i64, base: i64, largest: i64, records: u64) {
        let half = records / 2;
        for (timestamp, rows) in [(base, half), (largest, records - half)] {
            self.row_age(now_ms, timestamp, rows);
        }
    }

    /// Records the age of `rows` rows that have the same timestamp.
    pub(crate) fn row_age(&mut self, now_ms: i64, timestamp: i64, rows: u64) {
        if timestamp >= 0 && rows > 0 {
            // The difference is negative if the producer's clock is ahead; the age is then recorded as 0.
            let age = u64::try_from(now_ms.saturating_sub(timestamp)).unwrap_or(0);
            self.end_to_end.add(Duration::from_millis(age), rows);
        }
    }

    pub(crate) fn collect(&self, sink: &mut Sink) {
        let none = &Label::None;
        let ids = MeterIds {
            sum: Some(Id::RecordsConsumedTotal),
            rate: Some(Id::RecordsConsumedRate),
            ..MeterIds::default()
        };
        sink.meter(&self.records, none, ids);
        let ids = MeterIds {
            sum: Some(Id::BytesConsumedTotal),
            rate: Some(Id::BytesConsumedRate),
            mean: Some(Id::FetchSizeAvg),
            max: Some(Id::FetchSizeMax),
            ..MeterIds::default()
        };
        sink.meter(&self.bytes, none, ids);
        sink.meter(&self.fetched, none, MeterIds { mean: Some(Id::FetchedPerRequestAvg), ..MeterIds::default() });
        sink.latency(Id::EndToEndLatency, Label::None, self.end_to_end.summary());
        for (name, topic) in &self.topics {
            let label = Label::Topic(Arc::clone(name));
            let ids = MeterIds {
                sum: Some(Id::TopicRecordsConsumedTotal),
                rate: Some(Id::TopicRecordsConsumedRate),
                ..MeterIds::default()
            };
            sink.meter(&topic.records, &label, ids);
            let ids = MeterIds {
                sum: Some(Id::TopicBytesConsumedTotal),
                rate: Some(Id::TopicBytesConsumedRate),
                ..MeterIds::default()
            };
            sink.meter(&topic.bytes, &label, ids);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::sample::Value;

    #[test]
    fn batch_age_uses_base_and_largest_timestamp() {
        let mut meters = ReadMeters::default();
        meters.batch_age(10_000, 9_000, 9_990, 3);
        meters.batch_age(10_000, -1, -1, 50);
        meters.batch_age(10_000, 11_000, 12_000, 2);
        let mut sink = Sink::new(Instant::now());
        meters.collect(&mut sink);
        let sample = sink.samples.iter().find(|sample| sample.id == Id::EndToEndLatency).unwrap();
        let Value::Summary(latency) = sample.value else { panic!("no summary") };
        assert_eq!((latency.count, latency.max), (5, Duration::from_secs(1)));
        assert_eq!(latency.sum, Duration::from_millis(1000 + 2 * 10));
    }
}
