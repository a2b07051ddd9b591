//! Latency histogram with fixed buckets.

use std::time::Duration;

/// Number of buckets per power of two. It limits the error of a percentile to one eighth.
const PARTS: usize = 8;
/// Number of powers of two. The largest is 2³⁶ µs, which is 19 hours.
const POWERS: usize = 36;

/// Histogram of durations.
#[derive(Clone)]
pub(crate) struct Histogram {
    buckets: Box<[u64; PARTS * POWERS]>,
    count: u64,
    largest: u64,
    /// Sum of all values in microseconds.
    sum: u128,
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: Box::new([0; PARTS * POWERS]), count: 0, largest: 0, sum: 0 }
    }
}

/// Percentiles and totals of a latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latency {
    /// 50th percentile.
    pub p50: Duration,
    /// 95th percentile.
    pub p95: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// Maximum.
    pub max: Duration,
    /// Number of values.
    pub count: u64,
    /// Sum of all values.
    pub sum: Duration,
}

impl Histogram {
    pub(crate) fn add(&mut self, duration: Duration, count: u64) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get_mut(bucket(micros).min(PARTS * POWERS - 1))
            && count > 0
        {
            *bucket += count;
            self.count += count;
            self.largest = self.largest.max(micros);
            self.sum += u128::from(micros) * u128::from(count);
        }
    }

    pub(crate) fn summary(&self) -> Latency {
        let [p50, p95, p99] = [50, 95, 99].map(|percent| self.percentile(percent));
        let sum = Duration::from_micros(u64::try_from(self.sum).unwrap_or(u64::MAX));
        Latency { p50, p95, p99, max: Duration::from_micros(self.largest), count: self.count, sum }
    }

    /// Returns an upper bound of the percentile.
    fn percentile(&self, percent: u64) -> Duration {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100);
        let mut cumulative = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            cumulative += u128::from(*count);
            if cumulative >= rank && *count > 0 {
                return Duration::from_micros(upper_bound(index).min(self.largest));
            }
        }
        Duration::ZERO
    }
}

/// Returns the index of the bucket for a duration. The first buckets contain one value each; after them, each power of
/// two has [`PARTS`] buckets.
fn bucket(micros: u64) -> usize {
    let power = micros.max(1).ilog2();
    let Some(shift) = power.checked_sub(PARTS.ilog2()) else { return micros as usize };
    (shift as usize + 1) * PARTS + ((micros >> shift) as usize & (PARTS - 1))
}

/// Returns the largest duration in a bucket, in microseconds.
fn upper_bound(bucket: usize) -> u64 {
    let (row, part) = (bucket / PARTS, (bucket % PARTS) as u64);
    match row.checked_sub(1) {
        None => part,
        Some(shift) => ((PARTS as u64 + part + 1) << shift) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous() {
        let mut last = 0;
        for micros in 0..100_000 {
            let index = bucket(micros);
            assert!(index == last || index == last + 1, "{micros}");
            assert!(
                micros <= upper_bound(index) && (index == 0 || micros > upper_bound(index - 1)),
                "{micros} in {index}"
            );
            last = index;
        }
        assert!(bucket(u64::MAX) > bucket(1 << 40));
    }

    #[test]
    fn percentile_error_is_bounded() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.summary(), Latency::default());
        for micros in 1..=10_000 {
            histogram.add(Duration::from_micros(micros), 1);
        }
        histogram.add(Duration::from_secs(1 << 40), 0);
        let summary = histogram.summary();
        for (percentile, expected) in [(summary.p50, 5_000), (summary.p95, 9_500), (summary.p99, 9_900)] {
            let micros = percentile.as_micros();
            assert!((expected..=expected * 9 / 8).contains(&micros), "{micros} for {expected}");
        }
        assert_eq!((summary.count, summary.sum), (10_000, Duration::from_micros(50_005_000)));
    }
}
