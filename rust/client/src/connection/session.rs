//! Sessions that end (KIP-368): a client logs in again on the same connection, in time and between its requests.
//!
//! Anyone who sends a request when the time has come starts it, so that idle connections stay idle. Tokens and tickets are
//! got while requests still pass; then they are held, the broker answers what is in flight, the login goes over the
//! wire, and what was held follows it in its order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::Connection;
use super::waiting::{Outgoing, Pending, Waiting};
use crate::auth::Session;
use crate::error::{Error, Result};

/// The part of a session after which it is renewed, as in Java's client: 85 to 95 %.
const EARLIEST: f64 = 0.85;
const RANDOM: f64 = 0.1;
/// Kafka takes one login a second on a connection.
const LEAST_BETWEEN: Duration = Duration::from_millis(1050);
/// What answers in flight may be later than the longest before them, and how long a request may take to a broker.
const MARGIN: Duration = Duration::from_millis(100);
/// Before a renewal is tried again that could not begin.
const PAUSE: Duration = Duration::from_secs(1);

/// A session with an end.
#[derive(Debug, Clone, Copy)]
struct Term {
    since: Instant,
    /// When it is to be renewed at the latest.
    due: Instant,
    /// And no earlier than this.
    least: Instant,
    ends: Instant,
    margin: Duration,
}

impl Term {
    fn new(since: Instant, lifetime: Duration) -> Self {
        let part = |part| since + lifetime.mul_f64(part);
        let due = part(EARLIEST + RANDOM * fastrand::f64());
        Self { since, due, least: part(0.5).min(due), ends: since + lifetime, margin: MARGIN.min(lifetime / 20) }
    }

    /// When it is to be renewed where answers take so long: what is in flight then is answered before the end.
    fn due(&self, longest: Duration) -> Instant {
        let before = self.ends.checked_sub(longest + self.margin).unwrap_or(self.least);
        self.due.min(before.max(self.least))
    }
}

/// What passes to the broker, and what is held until a login is through.
#[derive(Default)]
pub(super) struct Gate {
    term: Option<Term>,
    renewing: bool,
    /// The login goes over the wire, or waits for what is in flight.
    closed: bool,
    pub(super) held: VecDeque<(Outgoing, Option<Pending>)>,
    /// The longest that an answer took in this session.
    longest: Duration,
}

impl Gate {
    /// A login has succeeded.
    pub(super) fn begin(&mut self, session: Session) {
        let term = session.lifetime.map(|lifetime| Term::new(session.since, lifetime));
        (self.term, self.renewing, self.closed, self.longest) = (term, false, false, Duration::ZERO);
    }

    /// Whether a login is due, which is said once.
    pub(super) fn calls(&mut self, now: Instant) -> bool {
        let due = !self.renewing && self.term.is_some_and(|term| now >= term.due(self.longest));
        self.renewing |= due;
        due
    }

    /// Whether requests wait. One that is sent just before the end of a session would reach the broker after it.
    pub(super) fn holds(&self, now: Instant) -> bool {
        self.closed || self.renewing && self.term.is_some_and(|term| now + term.margin >= term.ends)
    }

    pub(super) fn answered_after(&mut self, time: Duration) {
        self.longest = self.longest.max(time);
    }

    /// The renewal could not begin; whether there is time for another.
    fn postpone(&mut self, now: Instant) -> bool {
        self.renewing = false;
        let Some(term) = self.term.as_mut().filter(|term| now < term.ends) else { return false };
        term.due = (now + PAUSE).min(term.ends);
        term.least = term.due;
        true
    }
}

impl Connection {
    /// Renews the session, or ends the connection.
    pub(super) async fn renew(self: Arc<Self>) {
        if let Err(error) = self.renewed().await {
            tracing::warn!(address = self.address(), %error, "the login could not be renewed: the connection ends");
            self.poison(error);
        }
    }

    async fn renewed(&self) -> Result<()> {
        let Some(login) = &self.setup.security.login else { return Ok(()) };
        let since = self.shared.waiting().gate.term.map(|term| term.since);
        sleep_until(since.unwrap_or_else(Instant::now) + LEAST_BETWEEN).await;
        let ready = async {
            let turn = self.setup.security.attempts.turn().await?;
            match login.prepare(self.host()).await {
                Ok(prepared) => Ok((turn, prepared)),
                Err(error) => {
                    let error = Err(error);
                    turn.ended(&error);
                    error
                }
            }
        };
        let late = || Error::connection(self.address(), "the login could not be prepared in time");
        let (turn, prepared) = match timeout(self.login_limit, ready).await.unwrap_or_else(|_| Err(late())) {
            Ok(ready) => ready,
            Err(error) => {
                let mut waiting = self.shared.waiting();
                if !waiting.gate.postpone(Instant::now()) {
                    return Err(error);
                }
                tracing::warn!(address = self.address(), %error, "the login cannot be renewed yet");
                return self.flush(&mut waiting);
            }
        };
        self.shared.waiting().gate.closed = true;
        self.drained().await?;
        self.shared.login.store(true, Ordering::Release);
        let login = login.authenticate(self, self.versions(), self.host(), Some(prepared));
        let limit = self.login_limit;
        let outcome = timeout(limit, login).await.unwrap_or_else(|_| {
            Err(Error::connection(self.address(), format!("the login took longer than {} ms", limit.as_millis())))
        });
        let outcome = outcome.map_err(of_another);
        turn.ended(&outcome);
        let session = outcome?;
        self.shared.login.store(false, Ordering::Release);
        tracing::debug!(address = self.address(), lifetime = ?session.lifetime, "logged in again");
        // In one step: nobody may overtake what was held.
        let mut waiting = self.shared.waiting();
        waiting.gate.begin(session);
        self.flush(&mut waiting)
    }

    /// Waits until nothing is in flight.
    async fn drained(&self) -> Result<()> {
        loop {
            if let Some(error) = self.broken() {
                return Err(error);
            }
            if self.shared.waiting().pending.is_empty() {
                return Ok(());
            }
            self.shared.drained.notified().await;
        }
    }

    /// Sends what was held and is still wanted.
    fn flush(&self, waiting: &mut Waiting) -> Result<()> {
        for (outgoing, pending) in std::mem::take(&mut waiting.gate.held) {
            match pending {
                Some(pending) if pending.reply.is_given_up() => {}
                Some(pending) => {
                    let expires = pending.limit.end();
                    self.push(waiting, outgoing, Some(Pending { expires, ..pending }))?;
                }
                None => self.push(waiting, outgoing, None)?,
            }
        }
        Ok(())
    }
}

impl Waiting {
    /// The oldest request, whose answer has come.
    pub(super) fn take_oldest(&mut self) -> Option<Pending> {
        let oldest = self.pending.pop_front()?;
        let left = oldest.expires.saturating_duration_since(Instant::now());
        self.answered = true;
        self.gate.answered_after(oldest.limit.0.saturating_sub(left));
        Some(oldest)
    }
}

/// A connection stays with whom it began, so another principal is a matter of a new one, not of wrong credentials.
fn of_another(error: Error) -> Error {
    match error {
        Error::Authentication { address, reason, .. } if reason.contains("Cannot change principals") => {
            Error::Connection { address, reason }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn session(lifetime: Option<Duration>) -> Session {
        Session { lifetime, since: Instant::now() }
    }

    #[test]
    fn a_session_is_renewed_between_85_and_95_percent_of_its_life() {
        for _ in 0..100 {
            let term = Term::new(Instant::now(), HOUR);
            let part = (term.due(Duration::ZERO) - term.since).as_secs_f64() / HOUR.as_secs_f64();
            assert!((0.85..=0.95).contains(&part), "{part}");
        }
    }

    #[test]
    fn it_is_renewed_earlier_where_answers_take_long() {
        let term = Term::new(Instant::now(), Duration::from_secs(3));
        let at = |longest| (term.due(Duration::from_millis(longest)) - term.since).as_millis();
        assert!((2550..=2850).contains(&at(0)));
        // A Fetch that waits a second at the broker is answered 100 ms before the end.
        assert_eq!(at(1000), 1900);
        assert_eq!(at(1400), 1500);
        assert_eq!(at(600_000), 1500, "never before half of it");
    }

    #[test]
    fn requests_pass_until_the_login_is_on_the_wire_or_the_session_ends() {
        let mut gate = Gate::default();
        let now = Instant::now();
        gate.begin(session(None));
        assert!(!gate.calls(now + HOUR) && !gate.holds(now + HOUR));
        gate.begin(session(Some(HOUR)));
        assert!(!gate.calls(now + HOUR / 2));
        let due = now + HOUR.mul_f64(0.96);
        assert!(gate.calls(due) && !gate.calls(due), "once");
        assert!(!gate.holds(due) && gate.holds(now + HOUR * 2));
        assert!(gate.holds(now + HOUR - MARGIN / 2) && !gate.holds(now + HOUR - MARGIN * 2), "on its way at the end");
        assert!(gate.postpone(due) && !gate.calls(due));
        let again = due + PAUSE * 2;
        assert!(gate.calls(again) && !gate.holds(again));
        assert!(!gate.postpone(now + HOUR * 2), "too late");
        gate.closed = true;
        assert!(gate.holds(due));
        gate.begin(session(Some(HOUR)));
        assert!(!gate.holds(Instant::now()));
    }
}
