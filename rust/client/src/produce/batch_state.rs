//! What became of a batch: one shared state, which all that wait for its records look at.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::unread::{Unread, UnreadRun};
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
    /// The records of a failed run that the application has not read.
    unread: Option<UnreadRun>,
    /// Anyone who waited was called; until then those who come wait for their turn, or they would overtake.
    called: bool,
}

struct Inner {
    /// Records in the batch; unknown while it is open.
    total: Option<u32>,
    done: u32,
    segments: Vec<Segment>,
    wakers: Vec<(u32, Waker)>,
    /// Runs of records whose results are waited for, and how many wait.
    readers: HashMap<(u32, u32), usize>,
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
        let inner = Inner { total: None, done: 0, segments: Vec::new(), wakers: Vec::new(), readers: HashMap::new() };
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

    /// Gives records `first..first + count` their result; a second result for the same records is ignored. A failure that
    /// nothing waits for is counted as unread.
    pub(crate) fn complete(
        &self,
        first: u32,
        count: u32,
        outcome: Result<Appended>,
        watched: &mut Watched,
        unread: Option<&Arc<Unread>>,
    ) {
        {
            let mut inner = self.lock();
            if inner.find(first).is_some() {
                return;
            }
            let unread = match (&outcome, unread) {
                (Err(error), Some(unread)) => {
                    let end = first + count;
                    let waited = inner.readers.keys().map(|(first, count)| *first..*first + *count);
                    let called = inner.wakers.iter().map(|(index, _)| *index..*index + 1);
                    let read = waited.chain(called).map(|run| run.start.max(first)..run.end.min(end));
                    let read = read.filter(|run| !run.is_empty()).map(|run| run.start - first..run.end - first);
                    unread.add(&self.topic, count, error, read)
                }
                _ => None,
            };
            inner.segments.push(Segment { first, count, outcome: outcome.clone(), unread, called: false });
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

    /// Returns whether one record has a result, without reading it.
    pub(super) fn has(&self, index: u32) -> bool {
        self.lock().find(index).is_some()
    }

    /// Returns whether all of `first..first + count` have results, without reading them.
    pub(super) fn has_all(&self, first: u32, count: u32) -> bool {
        let inner = self.lock();
        let mut at = first;
        while at < first + count {
            let Some(segment) = inner.find(at) else { return false };
            at = segment.first + segment.count;
        }
        true
    }

    /// Registers that the application waits for the results of these records, until the guard is dropped.
    pub(super) fn reader(&self, first: u32, count: u32) -> Reader<'_> {
        let mut inner = self.lock();
        *inner.readers.entry((first, count)).or_default() += 1;
        inner.read(first, count);
        Reader { state: self, first, count }
    }

    /// Registers that the application has read the results of these records, as far as they have come.
    pub(super) fn read(&self, first: u32, count: u32) {
        self.lock().read(first, count);
    }

    /// The result of one record, if it is there: its offset in `base_offset`.
    pub(super) fn get(&self, index: u32) -> Option<Result<Appended>> {
        self.look(index).inspect(|outcome| {
            if outcome.is_err() {
                self.read(index, 1);
            }
        })
    }

    /// Returns the result of one record without reading it.
    pub(super) fn look(&self, index: u32) -> Option<Result<Appended>> {
        let inner = self.lock();
        inner.find(index).map(|segment| segment.outcome.clone().map(|appended| appended.at(index - segment.first)))
    }

    pub(super) fn on_done(&self, index: u32, wake: Waker) {
        let outcome = {
            let mut inner = self.lock();
            inner.read(index, 1);
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
        let mut reader = None;
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            // Registered before the look, so that a result in between is not missed.
            notified.as_mut().enable();
            if let Some(outcome) = self.get(index) {
                return outcome;
            }
            reader.get_or_insert_with(|| self.reader(index, 1));
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

    /// The results of `first..first + count`, or `None` while one is missing; they count as unread still.
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

/// The application waits for the results of some records: it learns of failures.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    state: &'a BatchState,
    first: u32,
    count: u32,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut inner = self.state.lock();
        if let Some(waiting) = inner.readers.get_mut(&(self.first, self.count)) {
            *waiting -= 1;
            if *waiting == 0 {
                inner.readers.remove(&(self.first, self.count));
            }
        }
    }
}

impl Inner {
    /// Registers that the application learns of the results of these records.
    fn read(&mut self, first: u32, count: u32) {
        let end = first + count;
        for segment in self.segments.iter_mut().filter(|segment| segment.unread.is_some()) {
            let (from, until) = (first.max(segment.first), end.min(segment.first + segment.count));
            if let Some(unread) = segment.unread.as_mut().filter(|_| from < until) {
                unread.read(from - segment.first..until - segment.first);
            }
        }
    }

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
