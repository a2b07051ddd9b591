//! Two time limits: the caller's deadline, and the broker's time to respond.

use std::time::Duration;

use tokio::time::Instant;

/// Upper bound of a time limit, used where a duration exceeds the range of the clock.
const MAX_TIME: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Deadline of a caller for a response. When it has passed the caller gets a timeout, and a late response is discarded;
/// other requests on the connection are not affected.
#[derive(Debug, Clone, Copy)]
pub struct CallerDeadline {
    whole: Duration,
    until: Instant,
    only_to_send: bool,
}

impl CallerDeadline {
    /// Returns a deadline for obtaining a connection only: once the request is sent, the caller waits up to the request
    /// timeout, because it must learn the result.
    pub fn to_send(time: Duration) -> Self {
        Self { only_to_send: true, ..Self::from(time) }
    }

    /// Returns the deadline for the response; `None` if only the request timeout applies.
    pub(super) fn response_deadline(&self) -> Option<Instant> {
        (!self.only_to_send).then_some(self.until)
    }

    /// Returns the duration granted initially.
    pub fn whole(&self) -> Duration {
        self.whole
    }

    /// Returns the time at which it passes.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// Returns the remaining time.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

impl From<Duration> for CallerDeadline {
    fn from(whole: Duration) -> Self {
        Self { whole, until: deadline_after(whole), only_to_send: false }
    }
}

/// Time in which a broker must answer a request. When it has passed the connection is closed: responses come in order,
/// so those to later requests are blocked as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestTimeout(pub Duration);

impl RequestTimeout {
    /// Returns the deadline for a request that is sent now.
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
