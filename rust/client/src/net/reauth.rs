//! Schedule of session renewals (KIP-368), and the decision whether requests are sent or held back.

use std::time::Duration;

use tokio::time::Instant;

use crate::security::sasl::Session;

/// Start and width of the range in which a session is renewed: after 85 to 95 % of its lifetime, like in Java's client.
const EARLIEST: f64 = 0.85;
const JITTER: f64 = 0.1;
/// Margin for responses that are slower than the slowest response so far, and for the time that a request takes to
/// reach the broker.
const MARGIN: Duration = Duration::from_millis(100);
/// Delay before the next attempt if a renewal could not begin.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Times of a session with a limited lifetime.
#[derive(Debug, Clone, Copy)]
struct SessionLifetime {
    session_start: Instant,
    /// Latest time of the renewal.
    due: Instant,
    /// Earliest time of the renewal.
    earliest: Instant,
    ends: Instant,
    margin: Duration,
}

impl SessionLifetime {
    fn new(session_start: Instant, lifetime: Duration) -> Self {
        let part = |part| session_start + lifetime.mul_f64(part);
        let due = part(EARLIEST + JITTER * fastrand::f64());
        Self {
            session_start,
            due,
            earliest: part(0.5).min(due),
            ends: session_start + lifetime,
            margin: MARGIN.min(lifetime / 20),
        }
    }

    /// Returns the time of the renewal. It is early enough that requests in flight get their responses before the
    /// session ends, if they take at most `max_latency`.
    fn due(&self, max_latency: Duration) -> Instant {
        let before = self.ends.checked_sub(max_latency + self.margin).unwrap_or(self.earliest);
        self.due.min(before.max(self.earliest))
    }
}

/// State of the session and its renewal, which determines whether requests are sent or held back until the login has
/// completed.
#[derive(Default)]
pub(super) struct Reauthentication {
    lifetime: Option<SessionLifetime>,
    renewing: bool,
    /// True while requests are held back, because the login waits for requests in flight or is being sent.
    holding: bool,
    /// Longest response time in this session.
    max_latency: Duration,
}

impl Reauthentication {
    /// Records a successful login.
    pub(super) fn session_started(&mut self, session: Session) {
        let lifetime = session.lifetime.map(|lifetime| SessionLifetime::new(session.since, lifetime));
        (self.lifetime, self.renewing, self.holding, self.max_latency) = (lifetime, false, false, Duration::ZERO);
    }

    /// Returns true if a login is due, but only once per renewal.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let due = !self.renewing && self.lifetime.is_some_and(|lifetime| now >= lifetime.due(self.max_latency));
        self.renewing |= due;
        due
    }

    /// Returns the start of the session; `None` if its lifetime is not limited.
    pub(super) fn session_start(&self) -> Option<Instant> {
        self.lifetime.map(|lifetime| lifetime.session_start)
    }

    /// Holds back requests until the login has completed.
    pub(super) fn hold_requests(&mut self) {
        self.holding = true;
    }

    /// Returns true if requests must be held back. This also applies just before the session ends, because a request
    /// sent then would reach the broker too late.
    pub(super) fn must_hold(&self, now: Instant) -> bool {
        self.holding || self.renewing && self.lifetime.is_some_and(|lifetime| now + lifetime.margin >= lifetime.ends)
    }

    pub(super) fn record_latency(&mut self, time: Duration) {
        self.max_latency = self.max_latency.max(time);
    }

    /// Schedules another attempt after a renewal could not begin. Returns false if the session has already ended.
    pub(super) fn postpone(&mut self, now: Instant) -> bool {
        self.renewing = false;
        let Some(lifetime) = self.lifetime.as_mut().filter(|lifetime| now < lifetime.ends) else { return false };
        lifetime.due = (now + RETRY_DELAY).min(lifetime.ends);
        lifetime.earliest = lifetime.due;
        true
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
    fn session_is_renewed_after_85_to_95_percent() {
        for _ in 0..100 {
            let lifetime = SessionLifetime::new(Instant::now(), HOUR);
            let part = (lifetime.due(Duration::ZERO) - lifetime.session_start).as_secs_f64() / HOUR.as_secs_f64();
            assert!((0.85..=0.95).contains(&part), "{part}");
        }
    }

    #[test]
    fn slow_responses_advance_the_renewal() {
        let lifetime = SessionLifetime::new(Instant::now(), Duration::from_secs(3));
        let at = |max_latency| (lifetime.due(Duration::from_millis(max_latency)) - lifetime.session_start).as_millis();
        assert!((2550..=2850).contains(&at(0)));
        // A Fetch that waits at the broker for a second gets its response 100 ms before the session ends.
        assert_eq!(at(1000), 1900);
        assert_eq!(at(1400), 1500);
        assert_eq!(at(600_000), 1500, "never before half of it");
    }

    #[test]
    fn requests_are_held_during_login_and_after_session_end() {
        let mut reauth = Reauthentication::default();
        let now = Instant::now();
        reauth.session_started(session(None));
        assert!(!reauth.take_due(now + HOUR) && !reauth.must_hold(now + HOUR));
        reauth.session_started(session(Some(HOUR)));
        assert!(!reauth.take_due(now + HOUR / 2));
        let due = now + HOUR.mul_f64(0.96);
        assert!(reauth.take_due(due) && !reauth.take_due(due), "once");
        assert!(!reauth.must_hold(due) && reauth.must_hold(now + HOUR * 2));
        assert!(
            reauth.must_hold(now + HOUR - MARGIN / 2) && !reauth.must_hold(now + HOUR - MARGIN * 2),
            "on its way at the end"
        );
        assert!(reauth.postpone(due) && !reauth.take_due(due));
        let retry = due + RETRY_DELAY * 2;
        assert!(reauth.take_due(retry) && !reauth.must_hold(retry));
        assert!(!reauth.postpone(now + HOUR * 2), "too late");
        reauth.holding = true;
        assert!(reauth.must_hold(due));
        reauth.session_started(session(Some(HOUR)));
        assert!(!reauth.must_hold(Instant::now()));
    }
}
