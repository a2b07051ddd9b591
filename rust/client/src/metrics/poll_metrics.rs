//! Metrics of the application's polls.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use samsarrow_wire::sync::lock;
use tokio::time::Instant;

use super::meter::{Meter, Windows};
use super::sample::{Label, MeterIds, Sink};
use super::table::Id;

#[derive(Debug)]
struct Inner {
    /// Start time of the last poll.
    last: Option<Instant>,
    /// Total time for which the last poll has waited.
    waited: Duration,
    /// Time between the starts of polls, in milliseconds.
    between: Meter,
    idle: Meter,
}

/// Metrics of the start times and waits of polls.
#[derive(Debug)]
pub(crate) struct Polls(Mutex<Inner>);

/// Guard of a wait within a poll. Dropping it records the time waited.
#[derive(Debug)]
pub(crate) struct PollWait<'a>(&'a Polls, Instant);

impl Drop for PollWait<'_> {
    fn drop(&mut self) {
        let waited = self.1.elapsed();
        self.0.lock().waited += waited;
    }
}

impl Polls {
    pub(crate) fn new(windows: Windows) -> Self {
        Self(Mutex::new(Inner {
            last: None,
            waited: Duration::ZERO,
            between: Meter::new(windows),
            idle: Meter::new(windows),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }

    /// Records the start of a poll.
    pub(crate) fn begin(&self) {
        let now = Instant::now();
        let mut inner = self.lock();
        let waited = std::mem::take(&mut inner.waited);
        if let Some(begun) = inner.last.replace(now) {
            let whole = now.saturating_duration_since(begun);
            inner.between.add(now, whole.as_secs_f64() * 1e3);
            if !whole.is_zero() {
                inner.idle.add(now, (waited.as_secs_f64() / whole.as_secs_f64()).min(1.0));
            }
        }
    }

    /// Starts a wait within a poll. The wait ends when the guard is dropped.
    pub(crate) fn wait(&self) -> PollWait<'_> {
        PollWait(self, Instant::now())
    }

    pub(crate) fn collect(&self, sink: &mut Sink) {
        let inner = self.lock();
        sink.age(Id::LastPollSecondsAgo, inner.last);
        let ids =
            MeterIds { mean: Some(Id::TimeBetweenPollAvg), max: Some(Id::TimeBetweenPollMax), ..MeterIds::default() };
        sink.meter(&inner.between, &Label::None, ids);
        sink.meter(&inner.idle, &Label::None, MeterIds { mean: Some(Id::PollIdleRatioAvg), ..MeterIds::default() });
    }
}
