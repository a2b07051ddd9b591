//! How long things took, by time: percentiles out of a few hundred numbers.

use std::time::Duration;

/// Each power of two is cut into this many parts, so a percentile is at most an eighth too large.
const PARTS: usize = 8;
/// Up to 2³⁶ µs, which is 19 hours.
const POWERS: usize = 36;

/// How long something took, by time.
#[derive(Clone)]
pub(crate) struct Histogram {
    buckets: Box<[u64; PARTS * POWERS]>,
    count: u64,
    largest: u64,
    /// In microseconds.
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
    /// All of them one after the other.
    pub sum: Duration,
}

impl Histogram {
    pub(crate) fn add(&mut self, took: Duration, times: u64) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get_mut(bucket(micros).min(PARTS * POWERS - 1))
            && times > 0
        {
            *bucket += times;
            self.count += times;
            self.largest = self.largest.max(micros);
            self.sum += u128::from(micros) * u128::from(times);
        }
    }

    pub(crate) fn summary(&self) -> Latency {
        let [p50, p95, p99] = [50, 95, 99].map(|percent| self.percentile(percent));
        let sum = Duration::from_micros(u64::try_from(self.sum).unwrap_or(u64::MAX));
        Latency { p50, p95, p99, max: Duration::from_micros(self.largest), count: self.count, sum }
    }

    /// An upper bound of what this many percent took at most.
    fn percentile(&self, percent: u64) -> Duration {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100);
        let mut seen = 0;
        for (at, times) in self.buckets.iter().enumerate() {
            seen += u128::from(*times);
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
        assert_eq!((found.count, found.sum), (10_000, Duration::from_micros(50_005_000)));
    }
}
