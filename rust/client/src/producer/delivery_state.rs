//! Delivery state of a batch, shared by all callers that wait for its records.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use samsarrow_wire::sync::lock;
use tokio::sync::Notify;

use super::unread_failures::{Unread, UnreadRun};
use crate::collections::HashMap;
use crate::error::Result;

/// Broker result of a run of appended records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appended {
    /// Offset of the first record of the run, −1 if unknown.
    pub(crate) base_offset: i64,
    /// Append time in milliseconds; −1 unless the topic uses `LogAppendTime`.
    pub(crate) log_append_time: i64,
}

/// Action on completion of a record. A callback receives the result, which then counts as read. Notifications and
/// listeners do not receive the result.
pub(super) enum CompletionHandler {
    Callback(Box<dyn FnOnce(Result<Appended>) + Send>),
    Notification(Box<dyn FnOnce() + Send>),
    Listener(Arc<dyn CompletionListener>, u64),
}

/// Listener that is notified of completed records and reads their results itself. It is called once for all results of
/// one broker response.
pub trait CompletionListener: Send + Sync {
    /// Notifies that the records registered under these numbers are complete.
    fn on_complete(&self, numbers: Vec<u64>);
}

/// Listeners of the results of one response. They are notified when this list is dropped.
#[derive(Default)]
pub(crate) struct PendingNotifications(Vec<(Arc<dyn CompletionListener>, Vec<u64>)>);

impl PendingNotifications {
    fn add(&mut self, listener: Arc<dyn CompletionListener>, number: u64) {
        match self.0.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &listener)) {
            Some((_, numbers)) => numbers.push(number),
            None => self.0.push((listener, vec![number])),
        }
    }
}

impl Drop for PendingNotifications {
    fn drop(&mut self) {
        for (listener, numbers) in self.0.drain(..) {
            listener.on_complete(numbers);
        }
    }
}

struct Segment {
    first: u32,
    count: u32,
    outcome: Result<Appended>,
    /// Records of a failed run that the application has not read.
    unread: Option<UnreadRun>,
    /// True once all waiters were called. Until then, new waiters are queued behind earlier waiters, so that they are
    /// called in order.
    waiters_called: bool,
}

struct Inner {
    /// Number of records in the batch, or `None` while the batch is open.
    total: Option<u32>,
    done: u32,
    segments: Vec<Segment>,
    waiters: Vec<(u32, CompletionHandler)>,
    /// Number of waiting readers by run of records.
    readers: HashMap<(u32, u32), usize>,
}

/// Shared result of a batch. A batch that was too large for the broker completes in several segments, one per part.
pub(crate) struct BatchState {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    /// Sequence number among all states of the producer.
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
        let inner =
            Inner { total: None, done: 0, segments: Vec::new(), waiters: Vec::new(), readers: HashMap::default() };
        Self { topic, partition, id, inner: Mutex::new(inner), notify: Notify::new() }
    }

    /// Sets the number of records. No further record is added.
    pub(crate) fn close(&self, total: u32) {
        lock(&self.inner).total = Some(total);
    }

    /// Returns true if the run of records that starts at `first` has no result yet.
    pub(crate) fn is_open(&self, first: u32) -> bool {
        lock(&self.inner).find(first).is_none()
    }

    /// Returns true if every record has its result.
    pub(crate) fn all_done(&self) -> bool {
        let inner = lock(&self.inner);
        inner.total == Some(inner.done)
    }

    /// Completes records `first..first + count`; a second result for the same records is ignored. A failure without a
    /// waiting reader counts as unread.
    pub(crate) fn complete(
        &self,
        first: u32,
        count: u32,
        outcome: Result<Appended>,
        notifications: &mut PendingNotifications,
        unread: Option<&Arc<Unread>>,
    ) {
        {
            let mut inner = lock(&self.inner);
            if inner.find(first).is_some() {
                return;
            }
            let unread = match (&outcome, unread) {
                (Err(error), Some(unread)) => {
                    let called =
                        inner.waiters.iter().filter(|(_, waker)| matches!(waker, CompletionHandler::Callback(_)));
                    let called = called.filter_map(|(index, _)| intersect(first, count, *index..*index + 1));
                    let awaited = awaited(&inner.readers, first, count);
                    Some(unread.add(&self.topic, count, error, called, awaited))
                }
                _ => None,
            };
            inner.segments.push(Segment { first, count, outcome: outcome.clone(), unread, waiters_called: false });
        }
        while let Some(ready) = self.take_waiters(first, count) {
            for (index, handler) in ready {
                let record_outcome = || outcome.clone().map(|appended| appended.at(index - first));
                match handler {
                    CompletionHandler::Callback(callback) => call(|| callback(record_outcome())),
                    CompletionHandler::Notification(notice) => call(notice),
                    CompletionHandler::Listener(listener, number) => notifications.add(listener, number),
                }
            }
        }
        self.notify.notify_waiters();
    }

    /// Takes the waiters of these records. Once no waiter is left, marks the records as done, so that a flush counts
    /// them as completed.
    fn take_waiters(&self, first: u32, count: u32) -> Option<Vec<(u32, CompletionHandler)>> {
        let mut inner = lock(&self.inner);
        let in_run = |(index, _): &(u32, CompletionHandler)| (first..first + count).contains(index);
        let (ready, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut inner.waiters).into_iter().partition(in_run);
        inner.waiters = rest;
        if !ready.is_empty() {
            return Some(ready);
        }
        inner
            .segments
            .iter_mut()
            .filter(|segment| segment.first == first)
            .for_each(|segment| segment.waiters_called = true);
        inner.done += count;
        None
    }

    /// Returns true if one record has a result, without marking the result as read.
    pub(super) fn has_result(&self, index: u32) -> bool {
        lock(&self.inner).find(index).is_some()
    }

    /// Returns true if all records of `first..first + count` have results, without marking the results as read.
    pub(super) fn have_results(&self, first: u32, count: u32) -> bool {
        let inner = lock(&self.inner);
        let mut at = first;
        while at < first + count {
            let Some(segment) = inner.find(at) else { return false };
            at = segment.first + segment.count;
        }
        true
    }

    /// Registers that the application waits for the results of these records, until the guard is dropped. Failures that
    /// the application has not read by then count as unread.
    pub(super) fn read_guard(self: &Arc<Self>, first: u32, count: u32) -> ReadGuard {
        let mut inner = lock(&self.inner);
        *inner.readers.entry((first, count)).or_default() += 1;
        inner.for_each_failed(first, count, |unread, records, _| unread.exclude(records));
        ReadGuard { state: Arc::clone(self), first, count }
    }

    /// Marks the available results of these records as read by the application.
    pub(super) fn read(&self, first: u32, count: u32) {
        lock(&self.inner).read(first, count);
    }

    /// Returns the result of one record, if available, with the record's offset in `base_offset`. Marks a failure as
    /// read.
    pub(super) fn get(&self, index: u32) -> Option<Result<Appended>> {
        self.look(index).inspect(|outcome| {
            if outcome.is_err() {
                self.read(index, 1);
            }
        })
    }

    /// Returns the result of one record, if available, without marking it as read.
    pub(super) fn look(&self, index: u32) -> Option<Result<Appended>> {
        let inner = lock(&self.inner);
        inner.find(index).map(|segment| segment.outcome.clone().map(|appended| appended.at(index - segment.first)))
    }

    pub(super) fn on_done(&self, index: u32, handler: CompletionHandler) {
        let outcome = {
            let mut inner = lock(&self.inner);
            if matches!(handler, CompletionHandler::Callback(_)) {
                inner.read(index, 1);
            }
            match inner.find(index).filter(|segment| segment.waiters_called) {
                Some(segment) => segment.outcome.clone().map(|appended| appended.at(index - segment.first)),
                None => {
                    inner.waiters.push((index, handler));
                    return;
                }
            }
        };
        match handler {
            CompletionHandler::Callback(callback) => call(|| callback(outcome)),
            CompletionHandler::Notification(notice) => call(notice),
            CompletionHandler::Listener(listener, number) => listener.on_complete(vec![number]),
        }
    }

    pub(super) async fn wait(self: &Arc<Self>, index: u32) -> Result<Appended> {
        let mut reader = None;
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            // Registers for notifications before the check, so that a result in between is not missed.
            notified.as_mut().enable();
            if let Some(outcome) = self.get(index) {
                return outcome;
            }
            reader.get_or_insert_with(|| self.read_guard(index, 1));
            notified.await;
        }
    }

    /// Waits until every record of the batch has its result.
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

    /// Returns the first record after the segment that contains `at`, or `at` itself if that record has no result yet.
    pub(super) fn completed_until(&self, at: u32) -> u32 {
        lock(&self.inner).find(at).map_or(at, |segment| segment.first + segment.count)
    }

    /// Returns the results of `first..first + count` with the length of each run, or `None` if a result is missing. The
    /// results still count as unread.
    pub(super) fn range(&self, first: u32, count: u32) -> Option<Vec<(u32, Result<Appended>)>> {
        let inner = lock(&self.inner);
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

/// Calls application code and catches panics, so that other records still receive their results.
fn call(callback: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(callback)).is_err() {
        tracing::error!("a delivery callback panicked");
    }
}

/// Guard of an application that waits for the results of some records.
#[derive(Debug)]
pub(super) struct ReadGuard {
    state: Arc<BatchState>,
    first: u32,
    count: u32,
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        let mut inner = lock(&self.state.inner);
        if let Some(waiting) = inner.readers.get_mut(&(self.first, self.count)) {
            *waiting -= 1;
            if *waiting == 0 {
                inner.readers.remove(&(self.first, self.count));
                inner
                    .for_each_failed(self.first, self.count, |unread, records, readers| unread.count(records, readers));
            }
        }
    }
}

/// Returns the part of `records` within the run of `count` records from `first` on, relative to `first`.
fn intersect(first: u32, count: u32, records: Range<u32>) -> Option<Range<u32>> {
    let (from, until) = (records.start.max(first), records.end.min(first + count));
    (from < until).then(|| from - first..until - first)
}

/// Returns the records of a run for which the application waits.
fn awaited(readers: &HashMap<(u32, u32), usize>, first: u32, count: u32) -> impl Iterator<Item = Range<u32>> + use<'_> {
    readers.keys().filter_map(move |&(at, more)| intersect(first, count, at..at + more))
}

impl Inner {
    /// Marks the results of these records as read.
    fn read(&mut self, first: u32, count: u32) {
        self.for_each_failed(first, count, |unread, records, _| unread.read(records));
    }

    /// Calls `each` for the failed runs among these records, with the records for which the application waits.
    fn for_each_failed(
        &mut self,
        first: u32,
        count: u32,
        mut each: impl FnMut(&mut UnreadRun, Range<u32>, &mut dyn Iterator<Item = Range<u32>>),
    ) {
        for segment in &mut self.segments {
            if let Some(unread) = &mut segment.unread
                && let Some(records) = intersect(segment.first, segment.count, first..first + count)
            {
                each(unread, records, &mut awaited(&self.readers, segment.first, segment.count));
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
#[path = "delivery_state_tests.rs"]
mod tests;
