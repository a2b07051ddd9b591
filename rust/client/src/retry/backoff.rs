//! Exponential backoff with jitter.

use std::time::Duration;

/// How long to wait before the next try: doubles from `initial` to `max`, each time ±20 % (KIP-580).
#[derive(Debug, Clone)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// Starts at `initial`, never above `max`.
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max: max.max(initial), failures: 0 }
    }

    /// The wait after one more failure.
    pub fn next_delay(&mut self) -> Duration {
        let doubled = self.initial.saturating_mul(1 << self.failures.min(20)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        doubled.mul_f64(0.8 + 0.4 * fastrand::f64())
    }

    /// After a success.
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
        for wanted in [100.0, 200.0, 400.0, 800.0, 1000.0, 1000.0] {
            let delay = backoff.next_delay().as_secs_f64() * 1000.0;
            assert!((0.8 * wanted..=1.2 * wanted).contains(&delay), "{delay} for {wanted}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_millis(120));
    }
}
