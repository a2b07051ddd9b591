//! How a program polls.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::meter::{Meter, Windows};
use super::sample::{Label, Names, Sink};
use super::table::Id;

#[derive(Debug)]
struct Inner {
    /// When the last poll began.
    last: Option<Instant>,
    /// How long it has waited.
    waited: Duration,
    /// Milliseconds.
    between: Meter,
    idle: Meter,
}

/// When polls began and ended.
#[derive(Debug)]
pub(crate) struct Polls(Mutex<Inner>);

/// A wait of a poll, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a Polls, Instant);

impl Drop for Waiting<'_> {
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A poll begins.
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

    /// A poll waits.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        Waiting(self, Instant::now())
    }

    pub(crate) fn collect(&self, sink: &mut Sink) {
        let inner = self.lock();
        sink.age(Id::LastPollSecondsAgo, inner.last);
        let names = Names { mean: Some(Id::TimeBetweenPollAvg), max: Some(Id::TimeBetweenPollMax), ..Names::default() };
        sink.meter(&inner.between, &Label::None, names);
        sink.meter(&inner.idle, &Label::None, Names { mean: Some(Id::PollIdleRatioAvg), ..Names::default() });
    }
}
