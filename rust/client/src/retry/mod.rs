//! The one way to try again: until a deadline, with waits that grow, and an error at the end that names its cause.

pub mod backoff;

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::config::CommonOptions;
use crate::error::{Error, Result};
use crate::retry::backoff::Backoff;

/// As long as a clock can be counted on: years.
const ENDLESS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Time that is not worth another attempt.
const SHORTEST: Duration = Duration::from_millis(10);

/// Attempts at one thing. Every loop that asks a broker again goes through [`Retry::again`] or [`Retry::wait`], so none
/// can ask in a hot loop.
#[derive(Debug)]
pub(crate) struct Retry {
    timeout: Duration,
    deadline: Instant,
    backoff: Backoff,
    failure: Option<Error>,
}

impl Retry {
    /// Attempts that end `timeout` from now.
    pub(crate) fn new(options: &CommonOptions, timeout: Duration) -> Self {
        let backoff = Backoff::new(options.retry_backoff, options.retry_backoff_max);
        Self { timeout, deadline: Instant::now() + timeout, backoff, failure: None }
    }

    /// Attempts that go on until anyone who wanted them stops waiting.
    pub(crate) fn endless(options: &CommonOptions) -> Self {
        Self::new(options, ENDLESS)
    }

    /// What is left of the time.
    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Gives the attempts to come the whole time again; their waits go on to grow.
    pub(crate) fn restart(&mut self) {
        self.deadline = Instant::now() + self.timeout;
    }

    /// After a failed attempt: waits for the next one if `error` may pass.
    ///
    /// # Errors
    /// `error` itself if trying again cannot heal it; a timeout that names `what` and the cause when time is up.
    pub(crate) async fn again(&mut self, error: Error, what: impl FnOnce() -> String) -> Result<()> {
        if error.retriable() { self.wait(error, what).await } else { Err(error) }
    }

    /// The same where the caller knows that another attempt makes sense, whatever `error` is.
    ///
    /// # Errors
    /// A timeout that names `what` and the cause when time is up.
    pub(crate) async fn wait(&mut self, error: Error, what: impl FnOnce() -> String) -> Result<()> {
        let delay = self.backoff.next_delay();
        self.wait_for(delay, error, what).await
    }

    /// The same for what others may bring about at any time: waits are cut so that all of the time is used.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub(crate) async fn wait_to_the_end(&mut self, error: Error, what: impl FnOnce() -> String) -> Result<()> {
        let (delay, left) = (self.backoff.next_delay(), self.left());
        let delay = if left < SHORTEST { delay } else { delay.min(left.mul_f64(0.75)) };
        self.wait_for(delay, error, what).await
    }

    /// The same with a wait of the caller's choice.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub(crate) async fn wait_for(
        &mut self,
        delay: Duration,
        error: Error,
        what: impl FnOnce() -> String,
    ) -> Result<()> {
        let error = error.after(self.failure.take());
        if Instant::now() + delay >= self.deadline {
            return Err(Error::timeout_because(what(), self.timeout, Some(error)));
        }
        self.failure = Some(error);
        sleep(delay).await;
        Ok(())
    }
}
