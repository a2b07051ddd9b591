//! Exponential backoff with jitter.

use std::time::Duration;

/// Delay before a retry: doubles from `initial` to `max`, with ±20 % jitter (KIP-580).
#[derive(Debug, Clone)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// Creates a backoff that starts at `initial` and is limited to `max`, or to `initial` if that is larger.
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max: max.max(initial), failures: 0 }
    }

    /// Returns the delay after another failure.
    pub fn next_delay(&mut self) -> Duration {
        let doubled = self.initial.saturating_mul(1 << self.failures.min(20)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        doubled.mul_f64(0.8 + 0.4 * fastrand::f64())
    }

    /// Resets the delay after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_maximum_with_jitter() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(1000));
        for expected in [100.0, 200.0, 400.0, 800.0, 1000.0, 1000.0] {
            let delay = backoff.next_delay().as_secs_f64() * 1000.0;
            assert!((0.8 * expected..=1.2 * expected).contains(&delay), "{delay} for {expected}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_millis(120));
    }
}
