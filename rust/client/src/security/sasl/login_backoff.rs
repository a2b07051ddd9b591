//! Limits on login attempts. After a rejected login, no login is attempted for a time that grows with each rejection,
//! and callers get the error of the rejection immediately. Without these limits, each of the client's connections would
//! send a wrong password, which may lock the account.

use std::sync::Mutex;
use std::time::Duration;

use samsarrow_wire::sync::lock;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Result};
use crate::retry::backoff::Backoff;

/// Delay after a rejected login. It doubles with each further rejection.
const MIN_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Time after which an unanswered login no longer counts towards the maximum, so that a silent broker does not block
/// logins at other brokers. The unanswered login continues.
const ATTEMPT_SLOT: Duration = Duration::from_secs(1);
/// Maximum number of concurrent logins after a login has succeeded. Until then only one login runs at a time.
const MAX_CONCURRENT: usize = 4;

/// Login attempts of one client at all brokers.
#[derive(Debug, Default)]
pub(crate) struct LoginBackoff {
    state: Mutex<State>,
    /// Notified whenever a login ends.
    ended: Notify,
}

#[derive(Debug)]
struct State {
    rejection: Option<Rejection>,
    /// True if the last login succeeded.
    last_succeeded: bool,
    /// Number and start time of each login in progress.
    in_progress: Vec<(u64, Instant)>,
    next: u64,
    backoff: Backoff,
}

#[derive(Debug)]
struct Rejection {
    at: Instant,
    /// Time before which no login is attempted.
    until: Instant,
    error: Error,
}

impl Default for State {
    fn default() -> Self {
        let backoff = Backoff::new(MIN_WAIT, MAX_WAIT);
        Self { rejection: None, last_succeeded: false, in_progress: Vec::new(), next: 0, backoff }
    }
}

impl State {
    fn active_rejection(&self, now: Instant) -> Option<Error> {
        let rejection = self.rejection.as_ref().filter(|rejection| rejection.until > now);
        rejection.map(|rejection| rejection.error.clone())
    }

    /// Returns the time at which another login may start; `None` if it may start immediately.
    fn next_slot(&self, now: Instant) -> Option<Instant> {
        let max = if self.last_succeeded { MAX_CONCURRENT } else { 1 };
        let mut ends: Vec<_> =
            self.in_progress.iter().map(|(_, start)| *start + ATTEMPT_SLOT).filter(|end| *end > now).collect();
        ends.sort();
        let excess = ends.len().checked_sub(max)?;
        ends.get(excess).copied()
    }

    /// Starts a login and returns its number. If it may not start yet, returns the time until which to wait.
    fn begin(&mut self, now: Instant) -> Result<std::result::Result<u64, Instant>> {
        if let Some(error) = self.active_rejection(now) {
            return Err(error);
        }
        if let Some(until) = self.next_slot(now) {
            return Ok(Err(until));
        }
        let number = self.next;
        self.next += 1;
        self.in_progress.push((number, now));
        Ok(Ok(number))
    }

    fn record_success(&mut self) {
        self.rejection = None;
        self.last_succeeded = true;
        self.backoff.reset();
    }

    fn record_failure(&mut self, started: Instant, now: Instant, error: &Error) {
        self.last_succeeded = false;
        // If several logins that ran at the same time are rejected, only the first rejection counts.
        if self.rejection.as_ref().is_some_and(|rejection| started < rejection.at) {
            return;
        }
        let wait = self.backoff.next_delay();
        tracing::debug!(%error, ?wait, "a login was rejected: no login is attempted during the wait");
        self.rejection = Some(Rejection { at: now, until: now + wait, error: error.clone() });
    }
}

impl LoginBackoff {
    /// Returns the last rejection if it still blocks logins.
    pub(crate) fn rejected(&self) -> Option<Error> {
        lock(&self.state).active_rejection(Instant::now())
    }

    /// Waits until a login is rejected, and returns its error.
    pub(crate) async fn wait_for_rejection(&self) -> Error {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if let Some(error) = self.rejected() {
                return error;
            }
            ended.await;
        }
    }

    /// Waits until a login may start.
    ///
    /// # Errors
    /// Fails if a recent rejection blocks logins, or if a login is rejected during the wait.
    pub(crate) async fn acquire(&self) -> Result<LoginAttempt<'_>> {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let now = Instant::now();
            let until = match lock(&self.state).begin(now)? {
                Ok(number) => return Ok(LoginAttempt { backoff: self, number, started: now }),
                Err(until) => until,
            };
            let _ = timeout_at(until, ended).await;
        }
    }

    /// Records a rejection without a login attempt, for a broker that requires a login although none is configured.
    pub(crate) fn record_failure(&self, error: &Error) {
        let now = Instant::now();
        lock(&self.state).record_failure(now, now, error);
        self.ended.notify_waiters();
    }
}

/// A login that is in progress.
#[derive(Debug)]
pub(crate) struct LoginAttempt<'a> {
    backoff: &'a LoginBackoff,
    number: u64,
    started: Instant,
}

impl LoginAttempt<'_> {
    /// Records the outcome of the login. Only successes and rejected credentials count, because other errors do not
    /// depend on the credentials.
    pub(crate) fn finish<T>(self, outcome: &Result<T>) {
        let mut state = lock(&self.backoff.state);
        match outcome {
            Ok(_) => state.record_success(),
            Err(error @ Error::Authentication { .. }) => state.record_failure(self.started, Instant::now(), error),
            Err(_) => {}
        }
    }
}

impl Drop for LoginAttempt<'_> {
    fn drop(&mut self) {
        lock(&self.backoff.state).in_progress.retain(|(number, _)| *number != self.number);
        self.backoff.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn wrong() -> Error {
        Error::authentication("h:1", "wrong password")
    }

    impl State {
        /// Starts a login and records its rejection.
        fn fail(&mut self, now: Instant) {
            let number = self.begin(now).unwrap().unwrap();
            self.record_failure(now, now, &wrong());
            self.in_progress.retain(|(other, _)| *other != number);
        }
    }

    #[test]
    fn rejection_blocks_logins_for_a_growing_time() {
        let mut state = State::default();
        let start = Instant::now();
        // Only a few of the many login attempts reach a broker.
        let mut tried = 0;
        for ms in (0..10_000).step_by(10) {
            let now = start + Duration::from_millis(ms);
            if state.active_rejection(now).is_none() {
                tried += 1;
                state.fail(now);
            }
            assert_eq!(state.active_rejection(now), Some(wrong()));
            assert_eq!(state.begin(now), Err(wrong()));
        }
        assert_eq!(tried, 4);
        let mut now = start;
        for _ in 0..20 {
            now += MAX_WAIT * 2;
            state.fail(now);
        }
        now += MAX_WAIT.mul_f64(1.3);
        assert_eq!(state.active_rejection(now), None);
        state.record_success();
        state.fail(now);
        assert_eq!(state.active_rejection(now + MIN_WAIT.mul_f64(1.3)), None, "a success resets the backoff");
    }

    #[test]
    fn concurrent_logins_are_limited_after_success() {
        let mut state = State::default();
        state.record_success();
        let now = Instant::now();
        for _ in 0..MAX_CONCURRENT {
            assert!(matches!(state.begin(now), Ok(Ok(_))));
        }
        assert_eq!(state.begin(now), Ok(Err(now + ATTEMPT_SLOT)));
        // Two logins are rejected, which counts as a single rejection.
        let soon = now + Duration::from_millis(1);
        state.record_failure(now, soon, &wrong());
        state.record_failure(now, soon + Duration::from_millis(1), &wrong());
        assert_eq!(state.active_rejection(soon + MIN_WAIT.mul_f64(1.3)), None);
    }

    #[test]
    fn silent_broker_does_not_block_other_logins() {
        let mut state = State::default();
        let now = Instant::now();
        assert_eq!(state.begin(now), Ok(Ok(0)));
        assert_eq!(state.begin(now), Ok(Err(now + ATTEMPT_SLOT)));
        assert_eq!(state.begin(now + ATTEMPT_SLOT), Ok(Ok(1)));
        assert_eq!(state.begin(now + ATTEMPT_SLOT), Ok(Err(now + ATTEMPT_SLOT * 2)));
    }

    #[tokio::test]
    async fn first_login_is_attempted_alone() {
        let backoff = Arc::new(LoginBackoff::default());
        let first = backoff.acquire().await.unwrap();
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let backoff = Arc::clone(&backoff);
                tokio::spawn(async move { backoff.acquire().await.map(|attempt| attempt.finish(&Ok(()))) })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(lock(&backoff.state).in_progress.len(), 1);
        first.finish::<()>(&Err(wrong()));
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap(), Err(wrong()));
        }
        assert_eq!(lock(&backoff.state).next, 1, "none of them has reached a broker");
    }

    #[tokio::test]
    async fn connection_errors_do_not_count_as_rejections() {
        let backoff = LoginBackoff::default();
        backoff.acquire().await.unwrap().finish::<()>(&Err(Error::connection("h:1", "closed")));
        assert_eq!(backoff.rejected(), None);
        assert!(lock(&backoff.state).in_progress.is_empty());
        backoff.record_failure(&wrong());
        assert_eq!(backoff.acquire().await.unwrap_err(), wrong());
    }
}
