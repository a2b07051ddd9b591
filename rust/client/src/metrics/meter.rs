//! Meters with totals and time windows. Rates, averages and extremes are computed like in Java's client.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Time windows of meters: `metrics.num.samples` windows of `metrics.sample.window.ms` each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Number of windows (`metrics.num.samples`).
    pub count: usize,
    /// Length of a window.
    pub span: Duration,
}

impl Default for Windows {
    fn default() -> Self {
        Self { count: 2, span: Duration::from_secs(30) }
    }
}

#[derive(Debug, Clone, Copy)]
struct Window {
    start: Instant,
    sum: f64,
    count: u64,
    largest: f64,
}

/// Meter of a repeated event. It records the number of events, and the sum and maximum of a value per event.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    windows: Windows,
    recent: VecDeque<Window>,
    /// Sum of all values.
    pub(crate) sum: f64,
    /// Number of values.
    pub(crate) count: u64,
    /// Time of the last value.
    pub(crate) last: Option<Instant>,
}

/// Summary of the values in the current windows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Recent {
    pub(crate) sum: f64,
    pub(crate) count: u64,
    pub(crate) largest: f64,
    /// Time that the windows cover, in seconds.
    pub(crate) seconds: f64,
}

impl Recent {
    /// Returns the average of the values; `None` if there are none.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// Returns the largest value; `None` if there are none.
    pub(crate) fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.largest)
    }

    /// Returns the sum of the values per second.
    pub(crate) fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.sum / self.seconds } else { 0.0 }
    }

    /// Returns the number of values per second.
    pub(crate) fn count_rate(&self) -> f64 {
        if self.seconds > 0.0 { self.count as f64 / self.seconds } else { 0.0 }
    }
}

impl Meter {
    pub(crate) fn new(windows: Windows) -> Self {
        Self { windows, ..Self::default() }
    }

    pub(crate) fn add(&mut self, now: Instant, value: f64) {
        self.add_many(now, value, 1, value);
    }

    /// Records several values.
    pub(crate) fn add_many(&mut self, now: Instant, sum: f64, count: u64, largest: f64) {
        self.sum += sum;
        self.count += count;
        self.last = Some(now);
        let Windows { count: windows, span } = self.windows;
        let old = self.recent.back().is_none_or(|window| now.saturating_duration_since(window.start) >= span);
        if old {
            if self.recent.len() >= windows.max(1) {
                self.recent.pop_front();
            }
            self.recent.push_back(Window { start: now, sum, count, largest });
        } else if let Some(window) = self.recent.back_mut() {
            window.sum += sum;
            window.count += count;
            window.largest = window.largest.max(largest);
        }
    }

    /// Returns a summary of the values in the current windows.
    ///
    /// Like in Java's client, the time covered is at least the length of all windows but one, so that the first values
    /// do not appear as a burst.
    pub(crate) fn recent(&self, now: Instant) -> Recent {
        let Windows { count: windows, span } = self.windows;
        let all = span.saturating_mul(u32::try_from(windows).unwrap_or(u32::MAX));
        let is_current = |window: &&Window| now.saturating_duration_since(window.start) < all;
        let mut recent = Recent::default();
        let mut oldest = None;
        for window in self.recent.iter().filter(is_current) {
            oldest = oldest.or(Some(window.start));
            recent.largest = if recent.count == 0 { window.largest } else { recent.largest.max(window.largest) };
            recent.sum += window.sum;
            recent.count += window.count;
        }
        let min_span = span.saturating_mul(u32::try_from(windows.saturating_sub(1).max(1)).unwrap_or(u32::MAX));
        recent.seconds =
            oldest.map_or(min_span, |start| now.saturating_duration_since(start).max(min_span)).as_secs_f64();
        recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_expire_and_totals_persist() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut meter = Meter::default();
        assert_eq!(meter.recent(start), Recent { seconds: 30.0, ..Recent::default() });
        meter.add(start, 6.0);
        meter.add_many(at(10), 3.0, 2, 2.0);
        let recent = meter.recent(at(15));
        assert_eq!((recent.sum, recent.count, recent.max(), recent.mean()), (9.0, 3, Some(6.0), Some(3.0)));
        // The rate of the first value is computed over at least one window.
        assert!((recent.rate() - 0.3).abs() < 1e-9 && (recent.count_rate() - 0.1).abs() < 1e-9);
        meter.add(at(40), 1.0);
        assert!((meter.recent(at(50)).rate() - 0.2).abs() < 1e-9);
        assert_eq!(meter.recent(at(65)).max(), Some(1.0));
        let recent = meter.recent(at(200));
        assert_eq!((recent.count, recent.mean(), recent.max()), (0, None, None));
        assert_eq!((meter.sum, meter.count, meter.last), (10.0, 4, Some(at(40))));
        for seconds in 0..1000 {
            meter.add(at(200 + seconds), 1.0);
        }
        assert!(meter.recent.len() <= 2, "memory is bounded");
    }
}
