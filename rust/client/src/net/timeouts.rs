//! The two time limits of a request: the caller's deadline, and the broker's time to respond.

use std::time::Duration;

use tokio::time::Instant;

/// Upper bound of time limits, used if a duration exceeds the range of the clock.
const MAX_TIME: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Time until which a caller waits for a response. After that, the caller receives a timeout error and a late response
/// is discarded. Other requests on the connection are not affected.
#[derive(Debug, Clone, Copy)]
pub struct CallerDeadline {
    whole: Duration,
    until: Instant,
    only_to_send: bool,
}

impl CallerDeadline {
    /// Returns a deadline that applies only until the request is sent. After that, the caller waits up to the request
    /// timeout, because it needs the result.
    pub fn to_send(time: Duration) -> Self {
        Self { only_to_send: true, ..Self::from(time) }
    }

    /// Returns the deadline for the response; `None` if only the request timeout applies.
    pub(super) fn response_deadline(&self) -> Option<Instant> {
        (!self.only_to_send).then_some(self.until)
    }

    /// Returns the duration that the caller originally allowed.
    pub fn whole(&self) -> Duration {
        self.whole
    }

    /// Returns the time of the deadline.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// Returns the time left until the deadline.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

impl From<Duration> for CallerDeadline {
    fn from(whole: Duration) -> Self {
        Self { whole, until: deadline_after(whole), only_to_send: false }
    }
}

/// Time within which a broker must respond to a request. If it does not, the connection is closed, because responses
/// arrive in order and the responses to later requests are blocked as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestTimeout(pub Duration);

impl RequestTimeout {
    /// Returns the time by which the broker must respond if the request is sent now.
    pub(super) fn end(self) -> Instant {
        deadline_after(self.0)
    }
}

fn deadline_after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + MAX_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_times_beyond_the_clock() {
        assert!(CallerDeadline::from(Duration::MAX).left() > MAX_TIME / 2);
        assert!(RequestTimeout(Duration::MAX).end() > Instant::now());
        assert!(CallerDeadline::from(Duration::ZERO).left().is_zero());
    }
}
