//! Receipts: one shared state per batch, an index per record.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::record::{PartitionReceipt, RecordMetadata};
use crate::error::{Error, Result};

/// What the broker said of a run of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appended {
    /// Offset of the first record of the run, −1 if unknown.
    pub(crate) base_offset: i64,
    /// −1 unless the topic uses the broker's append time.
    pub(crate) log_append_time: i64,
}

/// What a result is given to.
enum Waker {
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
    fn get(&self, index: u32) -> Option<Result<Appended>> {
        let inner = self.lock();
        inner.find(index).map(|segment| segment.outcome.clone().map(|appended| appended.at(index - segment.first)))
    }

    fn on_done(&self, index: u32, wake: Waker) {
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

    async fn wait(&self, index: u32) -> Result<Appended> {
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

    /// The results of `first..first + count`, or `None` while one is missing.
    fn range(&self, first: u32, count: u32) -> Option<Vec<(u32, Result<Appended>)>> {
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

/// The pending result of one record. Clones share the result; any number may wait.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub(crate) state: Arc<BatchState>,
    pub(crate) index: u32,
    pub(crate) timestamp: i64,
}

impl Delivery {
    /// The topic the record goes to.
    pub fn topic(&self) -> &Arc<str> {
        &self.state.topic
    }

    /// The partition that was chosen.
    pub fn partition(&self) -> i32 {
        self.state.partition
    }

    /// Waits until the broker has answered for this record, or it failed for good.
    ///
    /// # Errors
    /// The reason why the record was not delivered.
    pub async fn wait(&self) -> Result<RecordMetadata> {
        self.state.wait(self.index).await.map(|appended| metadata(&self.state, appended, self.timestamp))
    }

    /// Whether the result is there.
    pub fn is_done(&self) -> bool {
        self.state.get(self.index).is_some()
    }

    /// The result, if it is there.
    pub fn peek(&self) -> Option<Result<RecordMetadata>> {
        let outcome = self.state.get(self.index)?;
        Some(outcome.map(|appended| metadata(&self.state, appended, self.timestamp)))
    }

    /// Calls `callback` once with the result, at once if it is there, else on the client's task that receives it.
    pub fn on_done(&self, callback: Box<dyn FnOnce(Result<RecordMetadata>) + Send>) {
        let timestamp = self.timestamp;
        let (topic, partition) = (Arc::clone(&self.state.topic), self.state.partition);
        let callback = move |outcome: Result<Appended>| {
            callback(outcome.map(|appended| to_metadata(topic, partition, appended, timestamp)));
        };
        self.state.on_done(self.index, Waker::Callback(Box::new(callback)));
    }

    /// Notifies `watcher` once that the result is there, under this number; at once if it is.
    pub fn watch(&self, watcher: Arc<dyn Watcher>, number: u64) {
        self.state.on_done(self.index, Waker::Watcher(watcher, number));
    }
}

fn metadata(state: &BatchState, appended: Appended, timestamp: i64) -> RecordMetadata {
    to_metadata(Arc::clone(&state.topic), state.partition, appended, timestamp)
}

fn to_metadata(topic: Arc<str>, partition: i32, appended: Appended, timestamp: i64) -> RecordMetadata {
    let timestamp = if appended.log_append_time >= 0 { appended.log_append_time } else { timestamp };
    let timestamp = (timestamp >= 0).then_some(timestamp);
    RecordMetadata { topic, partition, offset: appended.base_offset, timestamp }
}

/// Rows of a `send_batch` that share a batch.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) state: Arc<BatchState>,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// The fate of a run of rows of one `send_batch`.
#[derive(Debug, Clone)]
pub struct PartOutcome {
    /// Partition of the rows.
    pub partition: i32,
    /// Number of rows.
    pub count: u64,
    /// Offset of the first row, or why the rows were not delivered.
    pub outcome: Result<i64>,
}

/// The pending result of a `send_batch`. Clones share the result; any number may wait.
#[derive(Debug, Clone)]
pub struct BatchDelivery {
    topic: Arc<str>,
    parts: Arc<Vec<Part>>,
}

impl BatchDelivery {
    pub(crate) fn new(topic: Arc<str>, parts: Vec<Part>) -> Self {
        Self { topic, parts: Arc::new(parts) }
    }

    /// The topic the rows go to.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Number of rows.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.count)).sum()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until every row has its result.
    ///
    /// # Errors
    /// The first failure; [`outcomes`](Self::outcomes) distinguishes them.
    pub async fn wait(&self) -> Result<Vec<PartitionReceipt>> {
        for part in self.parts.iter() {
            let last = part.first + part.count;
            let mut at = part.first;
            while at < last {
                // The outcome itself is read below, when all are there.
                let _ = self.wait_one(part, at).await;
                at = part.settled(at).max(at + 1);
            }
        }
        self.peek().unwrap_or_else(|| Ok(Vec::new()))
    }

    async fn wait_one(&self, part: &Part, index: u32) -> Result<Appended> {
        part.state.wait(index).await
    }

    /// Whether every row has its result.
    pub fn is_done(&self) -> bool {
        self.parts.iter().all(|part| part.state.range(part.first, part.count).is_some())
    }

    /// The result, if it is there.
    pub fn peek(&self) -> Option<Result<Vec<PartitionReceipt>>> {
        let mut receipts: Vec<PartitionReceipt> = Vec::new();
        let mut failure: Option<Error> = None;
        for part in self.parts.iter() {
            for (count, outcome) in part.state.range(part.first, part.count)? {
                match outcome {
                    Ok(appended) => add_receipt(&mut receipts, part.state.partition, count, appended),
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
        }
        receipts.sort_by_key(|receipt| receipt.partition);
        Some(failure.map_or(Ok(receipts), Err))
    }

    /// What became of each run of rows so far; runs without a result are left out.
    pub fn outcomes(&self) -> Vec<PartOutcome> {
        let mut outcomes = Vec::new();
        for part in self.parts.iter() {
            for (count, outcome) in part.state.range(part.first, part.count).unwrap_or_default() {
                outcomes.push(PartOutcome {
                    partition: part.state.partition,
                    count: u64::from(count),
                    outcome: outcome.map(|appended| appended.base_offset),
                });
            }
        }
        outcomes
    }

    /// Calls `callback` once with the result, at once if it is there, else on the client's task that receives it.
    pub fn on_done(&self, callback: Box<dyn FnOnce(Result<Vec<PartitionReceipt>>) + Send>) {
        let rows: usize = self.parts.iter().map(|part| part.count as usize).sum();
        if rows == 0 {
            callback(Ok(Vec::new()));
            return;
        }
        // A batch may end in pieces, so the last row of each part does not speak for the others: the parts are looked
        // at again whenever one row of interest is done.
        let shared = Arc::new(Mutex::new(Some(callback)));
        let left = Arc::new(AtomicUsize::new(self.parts.len()));
        for part in self.parts.iter() {
            watch(self.clone(), part.clone(), part.first, Arc::clone(&left), Arc::clone(&shared));
        }
    }
}

type SharedCallback = Arc<Mutex<Option<Box<dyn FnOnce(Result<Vec<PartitionReceipt>>) + Send>>>>;

/// Follows one part from row `at` on, piece by piece; the last part to end calls back.
fn watch(delivery: BatchDelivery, part: Part, at: u32, left: Arc<AtomicUsize>, callback: SharedCallback) {
    let state = Arc::clone(&part.state);
    state.on_done(
        at,
        Waker::Callback(Box::new(move |_| {
            let next = part.settled(at).max(at + 1);
            if next < part.first + part.count {
                watch(delivery, part, next, left, callback);
            } else if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                let callback = callback.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let (Some(callback), Some(outcome)) = (callback, delivery.peek()) {
                    callback(outcome);
                }
            }
        })),
    );
}

impl Part {
    /// The first row at or after `at` whose result is missing, as far as the segment of `at` shows.
    fn settled(&self, at: u32) -> u32 {
        let inner = self.state.lock();
        inner.find(at).map_or(at, |segment| segment.first + segment.count).min(self.first + self.count)
    }
}

fn add_receipt(receipts: &mut Vec<PartitionReceipt>, partition: i32, count: u32, appended: Appended) {
    let log_append_time = (appended.log_append_time >= 0).then_some(appended.log_append_time);
    let previous = receipts.iter_mut().rev().find(|receipt| receipt.partition == partition);
    if let Some(previous) = previous {
        let follows = previous.base_offset >= 0 && previous.base_offset + previous.count as i64 == appended.base_offset;
        let both_unknown = previous.base_offset < 0 && appended.base_offset < 0;
        if follows || both_unknown {
            previous.count += u64::from(count);
            previous.log_append_time = previous.log_append_time.or(log_append_time);
            return;
        }
    }
    receipts.push(PartitionReceipt {
        partition,
        base_offset: appended.base_offset,
        count: u64::from(count),
        log_append_time,
    });
}

#[cfg(test)]
#[path = "delivery_tests.rs"]
mod tests;
