//! Totals, and what the last windows of time held: rates, means and extremes as Java's client has them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long metrics look back: `metrics.num.samples` windows of `metrics.sample.window.ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// How many there are.
    pub count: usize,
    /// How long each of them is.
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

/// What is counted of one kind of thing: how often it happened, and how much of something each brought.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    windows: Windows,
    recent: VecDeque<Window>,
    /// Of all values.
    pub(crate) sum: f64,
    /// How many values there were.
    pub(crate) count: u64,
    /// When the last one came.
    pub(crate) last: Option<Instant>,
}

/// What the windows hold.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Recent {
    pub(crate) sum: f64,
    pub(crate) count: u64,
    pub(crate) largest: f64,
    /// Seconds that they cover.
    pub(crate) seconds: f64,
}

impl Recent {
    /// What each value was in the mean.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// The largest value.
    pub(crate) fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.largest)
    }

    /// How much a second.
    pub(crate) fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.sum / self.seconds } else { 0.0 }
    }

    /// How often a second.
    pub(crate) fn count_rate(&self) -> f64 {
        if self.seconds > 0.0 { self.count as f64 / self.seconds } else { 0.0 }
    }
}

impl Meter {
    pub(crate) fn new(windows: Windows) -> Self {
        Self { windows, ..Self::default() }
    }

    /// One more value.
    pub(crate) fn add(&mut self, now: Instant, value: f64) {
        self.add_many(now, value, 1, value);
    }

    /// Several values at once.
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

    /// What the windows hold now. As with Java's client the time covered is never less than all windows but one: what has
    /// just begun is no burst.
    pub(crate) fn recent(&self, now: Instant) -> Recent {
        let Windows { count: windows, span } = self.windows;
        let all = span.saturating_mul(u32::try_from(windows).unwrap_or(u32::MAX));
        let live = |window: &&Window| now.saturating_duration_since(window.start) < all;
        let mut found = Recent::default();
        let mut oldest = None;
        for window in self.recent.iter().filter(live) {
            oldest = oldest.or(Some(window.start));
            found.largest = if found.count == 0 { window.largest } else { found.largest.max(window.largest) };
            found.sum += window.sum;
            found.count += window.count;
        }
        let least = span.saturating_mul(u32::try_from(windows.saturating_sub(1).max(1)).unwrap_or(u32::MAX));
        found.seconds = oldest.map_or(least, |at| now.saturating_duration_since(at).max(least)).as_secs_f64();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_forget_and_totals_do_not() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut meter = Meter::default();
        assert_eq!(meter.recent(start), Recent { seconds: 30.0, ..Recent::default() });
        meter.add(start, 6.0);
        meter.add_many(at(10), 3.0, 2, 2.0);
        let found = meter.recent(at(15));
        assert_eq!((found.sum, found.count, found.max(), found.mean()), (9.0, 3, Some(6.0), Some(3.0)));
        // What has just begun is spread over one window at least.
        assert!((found.rate() - 0.3).abs() < 1e-9 && (found.count_rate() - 0.1).abs() < 1e-9);
        meter.add(at(40), 1.0);
        assert!((meter.recent(at(50)).rate() - 0.2).abs() < 1e-9);
        assert_eq!(meter.recent(at(65)).max(), Some(1.0));
        let found = meter.recent(at(200));
        assert_eq!((found.count, found.mean(), found.max()), (0, None, None));
        assert_eq!((meter.sum, meter.count, meter.last), (10.0, 4, Some(at(40))));
        for seconds in 0..1000 {
            meter.add(at(200 + seconds), 1.0);
        }
        assert!(meter.recent.len() <= 2, "memory is bounded");
    }
}
