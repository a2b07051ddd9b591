//! What a producer counts. All of it is counted by batch, under a lock that is held anyway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Each power of two is cut into so many parts, so a percentile is at most an eighth too large.
const PARTS: usize = 8;
/// Up to 2³⁶ µs, which is 19 hours.
const POWERS: usize = 36;

/// How long something took, by time.
#[derive(Clone)]
pub(crate) struct Histogram {
    buckets: Box<[u64; PARTS * POWERS]>,
    count: u64,
    largest: u64,
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: Box::new([0; PARTS * POWERS]), count: 0, largest: 0 }
    }
}

impl Histogram {
    pub(crate) fn add(&mut self, took: Duration, times: u64) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get_mut(bucket(micros).min(PARTS * POWERS - 1)) {
            *bucket += times;
            self.count += times;
            self.largest = self.largest.max(micros);
        }
    }

    fn summary(&self) -> Latency {
        let [p50, p95, p99] = [50, 95, 99].map(|percent| self.percentile(percent));
        Latency { p50, p95, p99, max: Duration::from_micros(self.largest), count: self.count }
    }

    /// An upper bound of what so many percent took at most.
    fn percentile(&self, percent: u64) -> Duration {
        let rank = (self.count * percent).div_ceil(100);
        let mut seen = 0;
        for (at, times) in self.buckets.iter().enumerate() {
            seen += times;
            if seen >= rank && *times > 0 {
                return Duration::from_micros(end(at).min(self.largest));
            }
        }
        Duration::ZERO
    }
}

/// The first buckets hold one value each, then each power of two has its parts.
fn bucket(micros: u64) -> usize {
    let power = micros.max(1).ilog2();
    let Some(shift) = power.checked_sub(PARTS.ilog2()) else { return micros as usize };
    (shift as usize + 1) * PARTS + ((micros >> shift) as usize & (PARTS - 1))
}

/// The largest value of a bucket.
fn end(bucket: usize) -> u64 {
    let (row, part) = (bucket / PARTS, (bucket % PARTS) as u64);
    match row.checked_sub(1) {
        None => part,
        Some(shift) => ((PARTS as u64 + part + 1) << shift) - 1,
    }
}

/// What is counted as it happens.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) batches: u64,
    pub(crate) requests: u64,
    pub(crate) retries: u64,
    pub(crate) failed: u64,
    pub(crate) request_latency: Histogram,
    pub(crate) delivery_latency: Histogram,
}

/// Percentiles of a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latency {
    /// Half took no longer.
    pub p50: Duration,
    /// 95 % took no longer.
    pub p95: Duration,
    /// 99 % took no longer.
    pub p99: Duration,
    /// None took longer.
    pub max: Duration,
    /// How many there were.
    pub count: u64,
}

/// What a producer has done so far, and what it has yet to do.
#[derive(Debug, Clone, Default)]
pub struct ProducerMetrics {
    /// Records that have no result yet.
    pub queued_records: u64,
    /// Bytes of `buffer.memory` in use.
    pub queued_bytes: u64,
    /// Records that brokers have taken.
    pub records: u64,
    /// The bytes of their batches, compressed.
    pub bytes: u64,
    /// Their batches.
    pub batches: u64,
    /// Produce requests that were answered, or written where no answer is asked for.
    pub requests: u64,
    /// Batches that had to be sent again.
    pub retries: u64,
    /// Records that failed for good.
    pub failed_records: u64,
    /// From request to answer.
    pub request_latency: Latency,
    /// From the first record of a batch to its answer, once for each of its records.
    pub delivery_latency: Latency,
    /// Records that brokers have taken, by topic.
    pub topics: BTreeMap<Arc<str>, u64>,
}

impl Counters {
    /// A batch was taken.
    pub(crate) fn taken(&mut self, records: u32, bytes: usize, age: Duration) {
        self.records += u64::from(records);
        self.bytes += bytes as u64;
        self.batches += 1;
        self.delivery_latency.add(age, u64::from(records));
    }

    pub(crate) fn snapshot(&self) -> ProducerMetrics {
        ProducerMetrics {
            records: self.records,
            bytes: self.bytes,
            batches: self.batches,
            requests: self.requests,
            retries: self.retries,
            failed_records: self.failed,
            request_latency: self.request_latency.summary(),
            delivery_latency: self.delivery_latency.summary(),
            ..ProducerMetrics::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_join_without_gaps() {
        let mut last = 0;
        for micros in 0..100_000 {
            let at = bucket(micros);
            assert!(at == last || at == last + 1, "{micros}");
            assert!(micros <= end(at) && (at == 0 || micros > end(at - 1)), "{micros} in {at}");
            last = at;
        }
        assert!(bucket(u64::MAX) > bucket(1 << 40));
    }

    #[test]
    fn percentiles_are_an_eighth_too_large_at_most() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.summary(), Latency::default());
        for micros in 1..=10_000 {
            histogram.add(Duration::from_micros(micros), 1);
        }
        histogram.add(Duration::from_secs(1 << 40), 0);
        let found = histogram.summary();
        for (percentile, wanted) in [(found.p50, 5_000), (found.p95, 9_500), (found.p99, 9_900)] {
            let micros = percentile.as_micros();
            assert!((wanted..=wanted * 9 / 8).contains(&micros), "{micros} for {wanted}");
        }
        assert_eq!(found.count, 10_000);
    }
}
