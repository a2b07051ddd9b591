//! When a client may log in. Its connections (lanes × brokers) would otherwise multiply every wrong password, and lock the
//! account: one refusal stops them all for a while that grows, and callers get that refusal at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Result};
use crate::retry::backoff::Backoff;

/// The wait after a refusal; doubles with each.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A login that was not answered by then keeps its chance, and others have theirs too: one broker that is silent must
/// not keep us from all.
const TURN: Duration = Duration::from_secs(1);
/// How many logins are under way at a time once one has succeeded; before that one is.
const AT_ONCE: usize = 4;

/// The logins of one client at all brokers.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    state: Mutex<State>,
    /// Rung when a login ends.
    ended: Notify,
}

#[derive(Debug)]
struct State {
    refusal: Option<Refusal>,
    /// The last login succeeded.
    proven: bool,
    /// Those under way, by number and since when.
    under_way: Vec<(u64, Instant)>,
    next: u64,
    backoff: Backoff,
}

#[derive(Debug)]
struct Refusal {
    at: Instant,
    /// Nobody tries again before.
    until: Instant,
    error: Error,
}

impl Default for State {
    fn default() -> Self {
        let backoff = Backoff::new(SHORTEST_WAIT, LONGEST_WAIT);
        Self { refusal: None, proven: false, under_way: Vec::new(), next: 0, backoff }
    }
}

impl State {
    fn refused(&self, now: Instant) -> Option<Error> {
        let refusal = self.refusal.as_ref().filter(|refusal| refusal.until > now);
        refusal.map(|refusal| refusal.error.clone())
    }

    /// Until when there is no place for another login.
    fn full_until(&self, now: Instant) -> Option<Instant> {
        let most = if self.proven { AT_ONCE } else { 1 };
        let mut ends: Vec<_> = self.under_way.iter().map(|(_, at)| *at + TURN).filter(|end| *end > now).collect();
        ends.sort();
        let more = ends.len().checked_sub(most)?;
        ends.get(more).copied()
    }

    /// The number of a login that begins, or until when to wait.
    fn begin(&mut self, now: Instant) -> Result<std::result::Result<u64, Instant>> {
        if let Some(error) = self.refused(now) {
            return Err(error);
        }
        if let Some(until) = self.full_until(now) {
            return Ok(Err(until));
        }
        let number = self.next;
        self.next += 1;
        self.under_way.push((number, now));
        Ok(Ok(number))
    }

    fn succeed(&mut self) {
        self.refusal = None;
        self.proven = true;
        self.backoff.reset();
    }

    fn refuse(&mut self, began: Instant, now: Instant, error: &Error) {
        self.proven = false;
        // Those that were under way beside it say nothing new.
        if self.refusal.as_ref().is_some_and(|refusal| began < refusal.at) {
            return;
        }
        let wait = self.backoff.next_delay();
        tracing::debug!(%error, ?wait, "a login was refused: none is tried before");
        self.refusal = Some(Refusal { at: now, until: now + wait, error: error.clone() });
    }
}

impl Attempts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why nobody logs in now, if that is so.
    pub(crate) fn refused(&self) -> Option<Error> {
        self.state().refused(Instant::now())
    }

    /// Waits until that is so.
    pub(crate) async fn refusal(&self) -> Error {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if let Some(error) = self.refused() {
                return error;
            }
            ended.await;
        }
    }

    /// Waits until a login may begin.
    ///
    /// # Errors
    /// A refusal that is not long ago, also one that comes while others log in.
    pub(crate) async fn turn(&self) -> Result<Turn<'_>> {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let now = Instant::now();
            let until = match self.state().begin(now)? {
                Ok(number) => return Ok(Turn { attempts: self, number, began: now }),
                Err(until) => until,
            };
            let _ = timeout_at(until, ended).await;
        }
    }

    /// A broker has refused us without a login: it wants one.
    pub(crate) fn refuse(&self, error: &Error) {
        let now = Instant::now();
        self.state().refuse(now, now, error);
        self.ended.notify_waiters();
    }
}

/// One login that is under way.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    attempts: &'a Attempts,
    number: u64,
    began: Instant,
}

impl Turn<'_> {
    /// It was answered: credentials hold, or they do not. What is neither is not for here.
    pub(crate) fn ended<T>(self, outcome: &Result<T>) {
        let mut state = self.attempts.state();
        match outcome {
            Ok(_) => state.succeed(),
            Err(error @ Error::Authentication { .. }) => state.refuse(self.began, Instant::now(), error),
            Err(_) => {}
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.attempts.state().under_way.retain(|(number, _)| *number != self.number);
        self.attempts.ended.notify_waiters();
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
        /// A login that is refused at once.
        fn fail(&mut self, now: Instant) {
            let number = self.begin(now).unwrap().unwrap();
            self.refuse(now, now, &wrong());
            self.under_way.retain(|(other, _)| *other != number);
        }
    }

    #[test]
    fn a_refusal_stops_all_for_a_while_that_grows() {
        let mut state = State::default();
        let start = Instant::now();
        // Whatever calls there are, and however often: few reach a broker.
        let mut tried = 0;
        for ms in (0..10_000).step_by(10) {
            let now = start + Duration::from_millis(ms);
            if state.refused(now).is_none() {
                tried += 1;
                state.fail(now);
            }
            assert_eq!(state.refused(now), Some(wrong()));
            assert_eq!(state.begin(now), Err(wrong()));
        }
        assert_eq!(tried, 4);
        let mut now = start;
        for _ in 0..20 {
            now += LONGEST_WAIT * 2;
            state.fail(now);
        }
        now += LONGEST_WAIT.mul_f64(1.3);
        assert_eq!(state.refused(now), None);
        state.succeed();
        state.fail(now);
        assert_eq!(state.refused(now + SHORTEST_WAIT.mul_f64(1.3)), None, "a success begins anew");
    }

    #[test]
    fn a_few_log_in_at_once_when_credentials_hold() {
        let mut state = State::default();
        state.succeed();
        let now = Instant::now();
        for _ in 0..AT_ONCE {
            assert!(matches!(state.begin(now), Ok(Ok(_))));
        }
        assert_eq!(state.begin(now), Ok(Err(now + TURN)));
        // Two of them are refused: that is one refusal.
        let soon = now + Duration::from_millis(1);
        state.refuse(now, soon, &wrong());
        state.refuse(now, soon + Duration::from_millis(1), &wrong());
        assert_eq!(state.refused(soon + SHORTEST_WAIT.mul_f64(1.3)), None);
    }

    #[test]
    fn a_broker_that_is_silent_keeps_nobody_from_the_others() {
        let mut state = State::default();
        let now = Instant::now();
        assert_eq!(state.begin(now), Ok(Ok(0)));
        assert_eq!(state.begin(now), Ok(Err(now + TURN)));
        assert_eq!(state.begin(now + TURN), Ok(Ok(1)));
        assert_eq!(state.begin(now + TURN), Ok(Err(now + TURN * 2)));
    }

    #[tokio::test]
    async fn one_login_shows_whether_credentials_hold_while_the_others_wait() {
        let attempts = Arc::new(Attempts::default());
        let first = attempts.turn().await.unwrap();
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let attempts = Arc::clone(&attempts);
                tokio::spawn(async move { attempts.turn().await.map(|turn| turn.ended(&Ok(()))) })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(attempts.state().under_way.len(), 1);
        first.ended::<()>(&Err(wrong()));
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap(), Err(wrong()));
        }
        assert_eq!(attempts.state().next, 1, "none of them has reached a broker");
    }

    #[tokio::test]
    async fn a_connection_that_breaks_says_nothing_of_credentials() {
        let attempts = Attempts::default();
        attempts.turn().await.unwrap().ended::<()>(&Err(Error::connection("h:1", "closed")));
        assert_eq!(attempts.refused(), None);
        assert!(attempts.state().under_way.is_empty());
        attempts.refuse(&wrong());
        assert_eq!(attempts.turn().await.unwrap_err(), wrong());
    }
}
