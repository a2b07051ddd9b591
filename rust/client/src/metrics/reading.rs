//! What a consumer counts of the records that it reads, under the lock of its fetching.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::histogram::Histogram;
use super::meter::{Meter, Windows};
use super::sample::{Label, Names, Sink};
use super::table::Id;

/// One topic's.
#[derive(Debug)]
struct Topic {
    records: Meter,
    bytes: Meter,
}

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct ReadMeters {
    windows: Windows,
    /// Whether each row's timestamp counts, and not each batch's.
    pub(crate) by_row: bool,
    /// Rows that polls gave.
    records: Meter,
    /// Bytes that answers brought.
    bytes: Meter,
    /// Records that answers brought.
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

    /// A poll gives rows.
    pub(crate) fn given(&mut self, now: Instant, rows: usize) {
        self.records.add(now, rows as f64);
    }

    /// Rows among them are of this topic.
    pub(crate) fn given_of(&mut self, now: Instant, topic: &Arc<str>, rows: usize) {
        if rows > 0 {
            self.topic(topic).records.add(now, rows as f64);
        }
    }

    /// A partition's share of an answer came.
    pub(crate) fn came_of(&mut self, now: Instant, topic: &Arc<str>, bytes: usize) {
        if bytes > 0 {
            self.topic(topic).bytes.add(now, bytes as f64);
        }
    }

    /// An answer came.
    pub(crate) fn came(&mut self, now: Instant, bytes: usize, records: u64) {
        self.bytes.add(now, bytes as f64);
        self.fetched.add(now, records as f64);
    }

    /// A batch came: half of its records count as old as its base timestamp, half as its largest. All in milliseconds
    /// since 1970; batches without a time do not count.
    pub(crate) fn aged(&mut self, now_ms: i64, base: i64, largest: i64, records: u64) {
        let half = records / 2;
        for (stamp, times) in [(base, half), (largest, records - half)] {
            self.aged_row(now_ms, stamp, times);
        }
    }

    /// The same for rows of one time.
    pub(crate) fn aged_row(&mut self, now_ms: i64, stamp: i64, times: u64) {
        if stamp >= 0 {
            // A clock that is ahead of ours.
            let age = u64::try_from(now_ms.saturating_sub(stamp)).unwrap_or(0);
            self.end_to_end.add(Duration::from_millis(age), times);
        }
    }

    pub(crate) fn collect(&self, sink: &mut Sink) {
        let none = &Label::None;
        let names =
            Names { sum: Some(Id::RecordsConsumedTotal), rate: Some(Id::RecordsConsumedRate), ..Names::default() };
        sink.meter(&self.records, none, names);
        let names = Names {
            sum: Some(Id::BytesConsumedTotal),
            rate: Some(Id::BytesConsumedRate),
            mean: Some(Id::FetchSizeAvg),
            max: Some(Id::FetchSizeMax),
            ..Names::default()
        };
        sink.meter(&self.bytes, none, names);
        sink.meter(&self.fetched, none, Names { mean: Some(Id::FetchedPerRequestAvg), ..Names::default() });
        sink.latency(Id::EndToEndLatency, Label::None, self.end_to_end.summary());
        for (name, topic) in &self.topics {
            let label = Label::Topic(Arc::clone(name));
            let names = Names {
                sum: Some(Id::TopicRecordsConsumedTotal),
                rate: Some(Id::TopicRecordsConsumedRate),
                ..Names::default()
            };
            sink.meter(&topic.records, &label, names);
            let names = Names {
                sum: Some(Id::TopicBytesConsumedTotal),
                rate: Some(Id::TopicBytesConsumedRate),
                ..Names::default()
            };
            sink.meter(&topic.bytes, &label, names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::sample::Value;

    #[test]
    fn batches_age_by_their_base_and_largest_timestamp() {
        let mut meters = ReadMeters::default();
        meters.aged(10_000, 9_000, 9_990, 3);
        meters.aged(10_000, -1, -1, 50);
        meters.aged(10_000, 11_000, 12_000, 2);
        let mut sink = Sink::new(Instant::now());
        meters.collect(&mut sink);
        let found = sink.samples.iter().find(|sample| sample.id == Id::EndToEndLatency).unwrap();
        let Value::Summary(latency) = found.value else { panic!("no summary") };
        assert_eq!((latency.count, latency.max), (5, Duration::from_secs(1)));
        assert_eq!(latency.sum, Duration::from_millis(1000 + 2 * 10));
    }
}
