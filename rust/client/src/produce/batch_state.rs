//! What became of a batch: one shared state, which all that wait for its records look at.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::error::Result;

/// What the broker said of a run of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appended {
    /// Offset of the first record of the run, −1 if unknown.
    pub(crate) base_offset: i64,
    /// −1 unless the topic uses the broker's append time.
    pub(crate) log_append_time: i64,
}

/// What a result is given to.
pub(super) enum Waker {
    Callback(Box<dyn FnOnce(Result<Appended>) + Send>),
    Watcher(Arc<dyn Watcher>, u64),
}

/// Who looks for results itself. It is notified once of all that came with one answer of a broker.
pub trait Watcher: Send + Sync {
    /// The results of what it watches under these numbers are there.
    fn came(&self, numbers: Vec<u64>);
}

/// Watchers of results of one answer, notified when it is dropped.
#[derive(Default)]
pub(crate) struct Watched(Vec<(Arc<dyn Watcher>, Vec<u64>)>);

impl Watched {
    fn add(&mut self, watcher: Arc<dyn Watcher>, number: u64) {
        match self.0.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &watcher)) {
            Some((_, numbers)) => numbers.push(number),
            None => self.0.push((watcher, vec![number])),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        for (watcher, numbers) in self.0.drain(..) {
            watcher.came(numbers);
        }
    }
}

struct Segment {
    first: u32,
    count: u32,
    outcome: Result<Appended>,
    /// Anyone who waited was called; until then those who come wait for their turn, or they would overtake.
    called: bool,
}

struct Inner {
    /// Records in the batch; unknown while it is open.
    total: Option<u32>,
    done: u32,
    segments: Vec<Segment>,
    wakers: Vec<(u32, Waker)>,
}

/// The shared fate of a batch. A batch that the broker found too large ends in several segments, one per piece.
pub(crate) struct BatchState {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    /// Its place among all of the producer's states.
    pub(crate) id: u64,
    inner: Mutex<Inner>,
    notify: Notify,
}

impl fmt::Debug for BatchState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchState").field("topic", &self.topic).field("partition", &self.partition).finish()
    }
}

impl BatchState {
    pub(crate) fn new(topic: Arc<str>, partition: i32, id: u64) -> Self {
        let inner = Inner { total: None, done: 0, segments: Vec::new(), wakers: Vec::new() };
        Self { topic, partition, id, inner: Mutex::new(inner), notify: Notify::new() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No record is added from here on.
    pub(crate) fn close(&self, total: u32) {
        self.lock().total = Some(total);
    }

    /// Whether the run of records that begins at `first` has no result yet.
    pub(crate) fn is_open(&self, first: u32) -> bool {
        self.lock().find(first).is_none()
    }

    /// Whether every record has its result.
    pub(crate) fn all_done(&self) -> bool {
        let inner = self.lock();
        inner.total == Some(inner.done)
    }

    /// Gives records `first..first + count` their result; a second result for the same records is ignored.
    pub(crate) fn complete(&self, first: u32, count: u32, outcome: Result<Appended>, watched: &mut Watched) {
        {
            let mut inner = self.lock();
            if inner.find(first).is_some() {
                return;
            }
            inner.segments.push(Segment { first, count, outcome: outcome.clone(), called: false });
        }
        while let Some(ready) = self.next_to_call(first, count) {
            for (index, wake) in ready {
                let found = || outcome.clone().map(|appended| appended.at(index - first));
                match wake {
                    Waker::Callback(callback) => call(callback, found()),
                    Waker::Watcher(watcher, number) => watched.add(watcher, number),
                }
            }
        }
        self.notify.notify_waiters();
    }

    /// Who waits for these records. When nobody does any more the records are done, for those who flush too.
    fn next_to_call(&self, first: u32, count: u32) -> Option<Vec<(u32, Waker)>> {
        let mut inner = self.lock();
        let of = |(index, _): &(u32, Waker)| (first..first + count).contains(index);
        let (ready, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut inner.wakers).into_iter().partition(of);
        inner.wakers = rest;
        if !ready.is_empty() {
            return Some(ready);
        }
        inner.segments.iter_mut().filter(|segment| segment.first == first).for_each(|segment| segment.called = true);
        inner.done += count;
        None
    }

    /// The result of one record, if it is there: its offset in `base_offset`.
    pub(super) fn get(&self, index: u32) -> Option<Result<Appended>> {
        let inner = self.lock();
        inner.find(index).map(|segment| segment.outcome.clone().map(|appended| appended.at(index - segment.first)))
    }

    pub(super) fn on_done(&self, index: u32, wake: Waker) {
        let outcome = {
            let mut inner = self.lock();
            match inner.find(index).filter(|segment| segment.called) {
                Some(segment) => segment.outcome.clone().map(|appended| appended.at(index - segment.first)),
                None => {
                    inner.wakers.push((index, wake));
                    return;
                }
            }
        };
        match wake {
            Waker::Callback(callback) => call(callback, outcome),
            Waker::Watcher(watcher, number) => watcher.came(vec![number]),
        }
    }

    pub(super) async fn wait(&self, index: u32) -> Result<Appended> {
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            // Registered before the look, so that a result in between is not missed.
            notified.as_mut().enable();
            if let Some(outcome) = self.get(index) {
                return outcome;
            }
            notified.await;
        }
    }

    /// Until every record of the batch has its result.
    pub(crate) async fn wait_all(&self) {
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.all_done() {
                return;
            }
            notified.await;
        }
    }

    /// The first record after `at` that the result of `at` does not cover; `at` itself while that is missing.
    pub(super) fn settled_until(&self, at: u32) -> u32 {
        self.lock().find(at).map_or(at, |segment| segment.first + segment.count)
    }

    /// The results of `first..first + count`, or `None` while one is missing.
    pub(super) fn range(&self, first: u32, count: u32) -> Option<Vec<(u32, Result<Appended>)>> {
        let inner = self.lock();
        let mut runs = Vec::new();
        let mut at = first;
        let end = first + count;
        while at < end {
            let segment = inner.find(at)?;
            let until = end.min(segment.first + segment.count);
            runs.push((until - at, segment.outcome.clone().map(|appended| appended.at(at - segment.first))));
            at = until;
        }
        Some(runs)
    }
}

/// Runs the user's code: should it panic, the results of other records must still be given out.
fn call(callback: Box<dyn FnOnce(Result<Appended>) + Send>, outcome: Result<Appended>) {
    if catch_unwind(AssertUnwindSafe(|| callback(outcome))).is_err() {
        tracing::error!("a delivery callback panicked");
    }
}

impl Inner {
    fn find(&self, index: u32) -> Option<&Segment> {
        self.segments.iter().find(|segment| (segment.first..segment.first + segment.count).contains(&index))
    }
}

impl Appended {
    fn at(self, index: u32) -> Self {
        let base_offset = if self.base_offset < 0 { -1 } else { self.base_offset + i64::from(index) };
        Self { base_offset, ..self }
    }
}

#[cfg(test)]
#[path = "batch_state_tests.rs"]
mod tests;
