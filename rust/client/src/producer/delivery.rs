//! Receipts: what a sender holds of its records, each an index into the state of a batch.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::delivery_state::{Appended, BatchState, Waker, Watcher};
use super::record::{PartitionReceipt, RecordMetadata};
use crate::error::{Error, Result};

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
        self.state.has(self.index)
    }

    /// Returns the result without reading it, for texts that show it.
    pub fn look(&self) -> Option<Result<RecordMetadata>> {
        let outcome = self.state.look(self.index)?;
        Some(outcome.map(|appended| metadata(&self.state, appended, self.timestamp)))
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

    /// Registers that the application waits for the result, until what is returned is dropped.
    pub fn reading(&self) -> impl Send + use<> {
        self.state.reader(self.index, 1)
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
    /// The rows of the call that these are among.
    pub(crate) rows: Range<u64>,
}

/// The fate of a run of rows of one `send_batch`.
#[derive(Debug, Clone)]
pub struct PartOutcome {
    /// Partition of the rows.
    pub partition: i32,
    /// Number of rows.
    pub count: u64,
    /// The rows of the call, from 0, that these are among: all of these if they are as many as `count`.
    pub rows: Range<u64>,
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
        let _reading = self.reading();
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

    /// Registers that the application waits for the results of all rows, until what is returned is dropped.
    pub fn reading(&self) -> impl Send + use<> {
        self.parts.iter().map(|part| part.state.reader(part.first, part.count)).collect::<Vec<_>>()
    }

    async fn wait_one(&self, part: &Part, index: u32) -> Result<Appended> {
        part.state.wait(index).await
    }

    /// Whether every row has its result.
    pub fn is_done(&self) -> bool {
        self.parts.iter().all(|part| part.state.has_all(part.first, part.count))
    }

    /// The result, if it is there.
    pub fn peek(&self) -> Option<Result<Vec<PartitionReceipt>>> {
        self.look().inspect(|outcome| {
            if outcome.is_err() {
                self.parts.iter().for_each(|part| part.state.read(part.first, part.count));
            }
        })
    }

    /// Returns the result without reading it, for texts that show it.
    pub fn look(&self) -> Option<Result<Vec<PartitionReceipt>>> {
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

    /// Returns the results of the runs of rows so far, which are read then; runs without a result are left out.
    pub fn outcomes(&self) -> Vec<PartOutcome> {
        let mut outcomes = Vec::new();
        for part in self.parts.iter() {
            let Some(runs) = part.state.range(part.first, part.count) else { continue };
            part.state.read(part.first, part.count);
            outcomes.extend(runs.into_iter().map(|(count, outcome)| PartOutcome {
                partition: part.state.partition,
                count: u64::from(count),
                rows: part.rows.clone(),
                outcome: outcome.map(|appended| appended.base_offset),
            }));
        }
        outcomes
    }

    /// Calls `callback` once with the result, at once if it is there, else on the client's task that receives it.
    pub fn on_done(&self, callback: Box<dyn FnOnce(Result<Vec<PartitionReceipt>>) + Send>) {
        let (delivery, reading) = (self.clone(), self.reading());
        self.on_ready(move || {
            if let Some(outcome) = delivery.peek() {
                callback(outcome);
            }
            drop(reading);
        });
    }

    /// Calls `callback` once every row has its result, without reading it: at once, or on the client's task that receives
    /// the last one.
    pub fn on_ready(&self, callback: impl FnOnce() + Send + 'static) {
        // A batch may end in pieces, so the last row of each part does not speak for the others: the parts are looked
        // at again whenever one row of interest is done.
        let shared: SharedCallback = Arc::new(Mutex::new(Some(Box::new(callback))));
        let left = Arc::new(AtomicUsize::new(1));
        for part in self.parts.iter().filter(|part| part.count > 0) {
            left.fetch_add(1, Ordering::Relaxed);
            watch(part.clone(), part.first, Arc::clone(&left), Arc::clone(&shared));
        }
        call_last(&left, &shared);
    }
}

type SharedCallback = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Follows one part from row `at` on, piece by piece; the last part to end calls back.
fn watch(part: Part, at: u32, left: Arc<AtomicUsize>, callback: SharedCallback) {
    let state = Arc::clone(&part.state);
    state.on_done(
        at,
        Waker::Notice(Box::new(move || {
            let next = part.settled(at).max(at + 1);
            if next < part.first + part.count {
                watch(part, next, left, callback);
            } else {
                call_last(&left, &callback);
            }
        })),
    );
}

fn call_last(left: &AtomicUsize, callback: &SharedCallback) {
    if left.fetch_sub(1, Ordering::AcqRel) == 1
        && let Some(callback) = callback.lock().unwrap_or_else(PoisonError::into_inner).take()
    {
        callback();
    }
}

impl Part {
    /// The first row at or after `at` whose result is missing, as far as the segment of `at` shows.
    fn settled(&self, at: u32) -> u32 {
        self.state.settled_until(at).min(self.first + self.count)
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
