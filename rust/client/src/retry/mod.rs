//! Retry until a deadline, with growing delays and a final error that contains the cause.

pub mod backoff;

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::config::CommonOptions;
use crate::error::{Error, Result};
use crate::retry::backoff::Backoff;

/// Effectively infinite timeout, small enough that adding it to an `Instant` does not overflow.
const NO_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Remaining time too short for another attempt.
const MIN_REMAINING: Duration = Duration::from_millis(10);

/// Retry state of one operation.
///
/// Every loop that sends requests to a broker repeatedly uses [`Retry::again`] or [`Retry::wait`], so that none is a
/// busy loop.
#[derive(Debug)]
pub(crate) struct Retry {
    timeout: Duration,
    deadline: Instant,
    backoff: Backoff,
    failure: Option<Error>,
    client_id: String,
}

impl Retry {
    /// Starts an operation with a deadline `timeout` from now.
    pub(crate) fn new(options: &CommonOptions, timeout: Duration) -> Self {
        let backoff = Backoff::new(options.retry_backoff, options.retry_backoff_max);
        let client_id = options.client_id.clone();
        Self { timeout, deadline: Instant::now() + timeout, backoff, failure: None, client_id }
    }

    /// Starts an operation without a deadline.
    pub(crate) fn endless(options: &CommonOptions) -> Self {
        Self::new(options, NO_TIMEOUT)
    }

    /// Returns the remaining time.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Resets the deadline, but not the backoff.
    pub(crate) fn restart(&mut self) {
        self.deadline = Instant::now() + self.timeout;
    }

    /// Waits before the next attempt if `error` is retriable.
    ///
    /// # Errors
    /// Fails with `error` if it is not retriable, and at the deadline with a timeout that contains `context` and the
    /// cause.
    pub(crate) async fn again(&mut self, error: Error, context: impl FnOnce() -> String) -> Result<()> {
        if error.retriable() { self.wait(error, context).await } else { Err(error) }
    }

    /// Waits before the next attempt, even if `error` is not retriable.
    ///
    /// # Errors
    /// Fails at the deadline with a timeout that contains `context` and the cause.
    pub(crate) async fn wait(&mut self, error: Error, context: impl FnOnce() -> String) -> Result<()> {
        let delay = self.backoff.next_delay();
        self.wait_for(delay, error, context).await
    }

    /// Like [`Self::wait`], with delays limited to three quarters of the remaining time, so that there is an attempt
    /// shortly before the deadline.
    ///
    /// # Errors
    /// Fails like [`Self::wait`].
    pub(crate) async fn wait_until_deadline(&mut self, error: Error, context: impl FnOnce() -> String) -> Result<()> {
        let (delay, remaining) = (self.backoff.next_delay(), self.left());
        let delay = if remaining < MIN_REMAINING { delay } else { delay.min(remaining.mul_f64(0.75)) };
        self.wait_for(delay, error, context).await
    }

    /// Like [`Self::wait`], with a given delay.
    ///
    /// # Errors
    /// Fails like [`Self::wait`].
    pub(crate) async fn wait_for(
        &mut self,
        delay: Duration,
        error: Error,
        context: impl FnOnce() -> String,
    ) -> Result<()> {
        let error = error.prefer_cause(self.failure.take());
        if Instant::now() + delay >= self.deadline {
            return Err(Error::timeout_because(context(), self.timeout, Some(error)));
        }
        tracing::debug!(client_id = self.client_id, retry_after = ?delay, "{} is repeated: {error}", context());
        self.failure = Some(error);
        sleep(delay).await;
        Ok(())
    }
}
