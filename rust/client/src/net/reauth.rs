//! When a session is to be renewed (KIP-368), and whether requests pass meanwhile.

use std::time::Duration;

use tokio::time::Instant;

use crate::security::sasl::Session;

/// The part of a session after which it is renewed, as in Java's client: 85 to 95 %.
const EARLIEST: f64 = 0.85;
const RANDOM: f64 = 0.1;
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

/// Whether requests pass to the broker, or are held until a login is through.
#[derive(Default)]
pub(super) struct Gate {
    term: Option<Term>,
    renewing: bool,
    /// The login goes over the wire, or waits for what is in flight.
    closed: bool,
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

    /// When the session began, if it ends.
    pub(super) fn since(&self) -> Option<Instant> {
        self.term.map(|term| term.since)
    }

    /// From now on requests wait for the login.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether requests wait. One that is sent just before the end of a session would reach the broker after it.
    pub(super) fn holds(&self, now: Instant) -> bool {
        self.closed || self.renewing && self.term.is_some_and(|term| now + term.margin >= term.ends)
    }

    pub(super) fn answered_after(&mut self, time: Duration) {
        self.longest = self.longest.max(time);
    }

    /// The renewal could not begin; whether there is time for another.
    pub(super) fn postpone(&mut self, now: Instant) -> bool {
        self.renewing = false;
        let Some(term) = self.term.as_mut().filter(|term| now < term.ends) else { return false };
        term.due = (now + PAUSE).min(term.ends);
        term.least = term.due;
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
