//! Two times that must not be confused: what a caller waits, and what a broker has.

use std::time::Duration;

use tokio::time::Instant;

/// Longer than anybody waits: a time too long for the clock means this.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// How long a caller waits for an answer. When it is over the caller goes on, and the answer is thrown away when it
/// comes: nothing else on the connection notices.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    whole: Duration,
    until: Instant,
    only_to_send: bool,
}

impl Patience {
    /// For anyone who must know what becomes of a request once it is sent: the time is for a connection, and after that a
    /// caller waits for as long as the broker may take.
    pub fn to_send(time: Duration) -> Self {
        Self { only_to_send: true, ..Self::from(time) }
    }

    /// The end of the wait for an answer; without one it ends with the broker's time.
    pub(super) fn answer_until(&self) -> Option<Instant> {
        (!self.only_to_send).then_some(self.until)
    }

    /// What was granted at first.
    pub fn whole(&self) -> Duration {
        self.whole
    }

    /// Its end.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// What is left of it.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

impl From<Duration> for Patience {
    fn from(whole: Duration) -> Self {
        Self { whole, until: after(whole), only_to_send: false }
    }
}

/// How long a broker has to answer a request. When it is over the connection is given up, since answers come in order:
/// all that were asked later are stuck as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestTimeout(pub Duration);

impl RequestTimeout {
    /// Its end for a request that is sent now.
    pub(super) fn end(self) -> Instant {
        after(self.0)
    }
}

fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + FOREVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_too_long_for_the_clock() {
        assert!(Patience::from(Duration::MAX).left() > FOREVER / 2);
        assert!(RequestTimeout(Duration::MAX).end() > Instant::now());
        assert!(Patience::from(Duration::ZERO).left().is_zero());
    }
}
