//! Pending results of records and batches, which refer to records of a batch state.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use samsarrow_wire::sync::lock;

use super::delivery_state::{Appended, BatchState, CompletionHandler, CompletionListener};
use super::record::{PartitionReceipt, RecordMetadata};
use crate::error::{Error, Result};

/// Pending result of one record. Clones share the result; any number of tasks may wait for it.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub(crate) state: Arc<BatchState>,
    pub(crate) index: u32,
    pub(crate) timestamp: i64,
}

impl Delivery {
    pub fn topic(&self) -> &Arc<str> {
        &self.state.topic
    }

    pub fn partition(&self) -> i32 {
        self.state.partition
    }

    /// Waits until the record is delivered or has failed.
    ///
    /// # Errors
    /// Returns the reason why the record was not delivered.
    pub async fn wait(&self) -> Result<RecordMetadata> {
        self.state.wait(self.index).await.map(|appended| metadata(&self.state, appended, self.timestamp))
    }

    /// Returns true once the result is available.
    pub fn is_done(&self) -> bool {
        self.state.has_result(self.index)
    }

    /// Returns the result for display, if available, without marking it as read.
    pub fn look(&self) -> Option<Result<RecordMetadata>> {
        let outcome = self.state.look(self.index)?;
        Some(outcome.map(|appended| metadata(&self.state, appended, self.timestamp)))
    }

    /// Returns the result, if available, and marks a failure as read.
    pub fn peek(&self) -> Option<Result<RecordMetadata>> {
        let outcome = self.state.get(self.index)?;
        Some(outcome.map(|appended| metadata(&self.state, appended, self.timestamp)))
    }

    /// Calls `callback` once with the result: immediately if it is available, otherwise on the client task that
    /// receives it.
    pub fn on_done(&self, callback: Box<dyn FnOnce(Result<RecordMetadata>) + Send>) {
        let timestamp = self.timestamp;
        let (topic, partition) = (Arc::clone(&self.state.topic), self.state.partition);
        let callback = move |outcome: Result<Appended>| {
            callback(outcome.map(|appended| to_metadata(topic, partition, appended, timestamp)));
        };
        self.state.on_done(self.index, CompletionHandler::Callback(Box::new(callback)));
    }

    /// Registers that the application waits for the result, until the returned guard is dropped.
    pub fn reading(&self) -> impl Send + use<> {
        self.state.read_guard(self.index, 1)
    }

    /// Notifies `listener` once with `number` when the result is available, or immediately if the result is already
    /// available.
    pub fn add_listener(&self, listener: Arc<dyn CompletionListener>, number: u64) {
        self.state.on_done(self.index, CompletionHandler::Listener(listener, number));
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

/// Rows of one `send_batch` call in one batch.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) state: Arc<BatchState>,
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// Range of row numbers in the call that includes these rows, and possibly rows in other batches.
    pub(crate) rows: Range<u64>,
}

/// Result of a run of rows of one `send_batch` call.
#[derive(Debug, Clone)]
pub struct PartOutcome {
    /// Partition of the rows.
    pub partition: i32,
    /// Number of rows.
    pub count: u64,
    /// Range of row numbers in the call (from 0) that includes these rows. It contains no other rows if its length
    /// equals `count`.
    pub rows: Range<u64>,
    /// Offset of the first row, or the reason why the rows were not delivered.
    pub outcome: Result<i64>,
}

/// Pending result of a `send_batch` call. Clones share the result; any number of tasks may wait for it.
#[derive(Debug, Clone)]
pub struct BatchDelivery {
    topic: Arc<str>,
    parts: Arc<Vec<Part>>,
}

impl BatchDelivery {
    pub(crate) fn new(topic: Arc<str>, parts: Vec<Part>) -> Self {
        Self { topic, parts: Arc::new(parts) }
    }

    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Returns the number of rows.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.count)).sum()
    }

    /// Returns true if the delivery has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until all rows have their results.
    ///
    /// # Errors
    /// Returns the first failure; [`outcomes`](Self::outcomes) returns all failures.
    pub async fn wait(&self) -> Result<Vec<PartitionReceipt>> {
        let _reading = self.reading();
        for part in self.parts.iter() {
            let last = part.first + part.count;
            let mut at = part.first;
            while at < last {
                // All results are read below, once they are available.
                let _ = self.wait_row(part, at).await;
                at = part.completed_until(at).max(at + 1);
            }
        }
        self.peek().unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Registers that the application waits for the results of all rows, until the returned guard is dropped.
    pub fn reading(&self) -> impl Send + use<> {
        self.parts.iter().map(|part| part.state.read_guard(part.first, part.count)).collect::<Vec<_>>()
    }

    async fn wait_row(&self, part: &Part, index: u32) -> Result<Appended> {
        part.state.wait(index).await
    }

    /// Returns true once all rows have their results.
    pub fn is_done(&self) -> bool {
        self.parts.iter().all(|part| part.state.have_results(part.first, part.count))
    }

    /// Returns the result, if available, and marks failures as read.
    pub fn peek(&self) -> Option<Result<Vec<PartitionReceipt>>> {
        self.look().inspect(|outcome| {
            if outcome.is_err() {
                self.parts.iter().for_each(|part| part.state.read(part.first, part.count));
            }
        })
    }

    /// Returns the result for display, if available, without marking it as read.
    pub fn look(&self) -> Option<Result<Vec<PartitionReceipt>>> {
        let mut receipts: Vec<PartitionReceipt> = Vec::new();
        let mut failure: Option<Error> = None;
        for part in self.parts.iter() {
            for (count, outcome) in part.state.range(part.first, part.count)? {
                match outcome {
                    Ok(appended) => add_receipt(&mut receipts, &part.state, count, appended),
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
        }
        receipts.sort_by_key(|receipt| receipt.partition);
        Some(failure.map_or(Ok(receipts), Err))
    }

    /// Returns the results of the completed runs of rows, and marks them as read.
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

    /// Calls `callback` once with the result: immediately if it is available, otherwise on the client task that
    /// receives it.
    pub fn on_done(&self, callback: Box<dyn FnOnce(Result<Vec<PartitionReceipt>>) + Send>) {
        let (delivery, reading) = (self.clone(), self.reading());
        self.on_ready(move || {
            if let Some(outcome) = delivery.peek() {
                callback(outcome);
            }
            drop(reading);
        });
    }

    /// Calls `callback` once all rows have their results, without marking them as read: immediately, or on the client
    /// task that receives the last result.
    pub fn on_ready(&self, callback: impl FnOnce() + Send + 'static) {
        // A batch may complete in several segments, so a result of the last row of a part does not imply results of the
        // other rows. Therefore each part is checked again whenever the awaited row completes.
        let shared: SharedCallback = Arc::new(Mutex::new(Some(Box::new(callback))));
        let remaining = Arc::new(AtomicUsize::new(1));
        for part in self.parts.iter().filter(|part| part.count > 0) {
            remaining.fetch_add(1, Ordering::Relaxed);
            watch_part(part.clone(), part.first, Arc::clone(&remaining), Arc::clone(&shared));
        }
        call_last(&remaining, &shared);
    }
}

type SharedCallback = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Follows one part from row `at` on, segment by segment. The part that completes last calls `callback`.
fn watch_part(part: Part, at: u32, remaining: Arc<AtomicUsize>, callback: SharedCallback) {
    let state = Arc::clone(&part.state);
    state.on_done(
        at,
        CompletionHandler::Notification(Box::new(move || {
            let next = part.completed_until(at).max(at + 1);
            if next < part.first + part.count {
                watch_part(part, next, remaining, callback);
            } else {
                call_last(&remaining, &callback);
            }
        })),
    );
}

fn call_last(remaining: &AtomicUsize, callback: &SharedCallback) {
    if remaining.fetch_sub(1, Ordering::AcqRel) == 1
        && let Some(callback) = lock(callback).take()
    {
        callback();
    }
}

impl Part {
    /// Returns the first row after the completed segment that contains `at`, or `at` itself if that row has no result.
    fn completed_until(&self, at: u32) -> u32 {
        self.state.completed_until(at).min(self.first + self.count)
    }
}

fn add_receipt(receipts: &mut Vec<PartitionReceipt>, state: &BatchState, count: u32, appended: Appended) {
    let partition = state.partition;
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
        topic: Arc::clone(&state.topic),
        partition,
        base_offset: appended.base_offset,
        count: u64::from(count),
        log_append_time,
    });
}
