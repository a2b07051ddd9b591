//! State shared by the consumer and its fetch tasks, with signals for its changes.

use std::sync::{Mutex, MutexGuard};

use arrow_array::RecordBatch;
use samsarrow_arrow::{Pool, Topics};
use samsarrow_wire::sync::lock;
use tokio::sync::{Notify, watch};

use super::queue::Item;
use super::rows::Rows;
use super::state::State;
use crate::error::{Error, Result};
use crate::metrics::{Id, Label, Sink, Source};
use crate::types::TopicPartition;

/// State of a consumer, with signals for its changes.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Dictionary of topic names. Every assigned topic is added before its rows arrive, so that all batches share one
    /// dictionary, which Arrow's IPC file format requires.
    pub(super) topics: Topics,
    /// Memory pool of the decoded columns.
    pub(super) pool: Pool,
    /// Wakes `poll` when an item was queued or a position has become known.
    poll_ready: Notify,
    /// Wakes all tasks when a partition may have to be fetched from another broker or may need a start offset.
    tasks_changed: watch::Sender<()>,
    /// Wakes fetch tasks in the same cases as `tasks_changed`, and after polls that have freed capacity.
    capacity_changed: watch::Sender<()>,
}

impl Shared {
    /// Creates the state. `memory` is the maximum size of the queue in bytes.
    pub(super) fn new(memory: usize) -> Self {
        Self {
            state: Mutex::new(State::new(memory)),
            topics: Topics::default(),
            pool: Pool::new(memory),
            poll_ready: Notify::new(),
            tasks_changed: watch::Sender::new(()),
            capacity_changed: watch::Sender::new(()),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn notify_poll(&self) {
        self.poll_ready.notify_waiters();
    }

    /// Records that pieces of Fetch responses for these partitions are in the queue or have a slot in it.
    pub(super) fn mark_queued(&self, partitions: &[(TopicPartition, u64)]) {
        let mut state = self.lock();
        for (tp, version) in partitions {
            if let Some(cursor) = state.at_version(tp, *version) {
                cursor.undecoded.0 = cursor.undecoded.0.saturating_sub(1);
            }
        }
        let blocked = std::mem::take(&mut state.blocked_on_decode);
        drop(state);
        if blocked {
            self.notify_tasks();
        }
    }

    pub(super) fn notify_tasks(&self) {
        self.tasks_changed.send_replace(());
        self.notify_capacity();
    }

    pub(super) fn notify_capacity(&self) {
        self.capacity_changed.send_replace(());
    }

    pub(super) fn task_changes(&self) -> watch::Receiver<()> {
        self.tasks_changed.subscribe()
    }

    pub(super) fn capacity_changes(&self) -> watch::Receiver<()> {
        self.capacity_changed.subscribe()
    }

    pub(super) fn push(&self, item: Item) {
        self.lock().queue.push_back(item);
        self.notify_poll();
    }

    /// Waits until `condition` returns a value, and returns it; returns `None` if `deadline` passes first.
    pub(super) async fn wait_for<T>(
        &self,
        deadline: tokio::time::Instant,
        mut condition: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        loop {
            let notified = self.poll_ready.notified();
            tokio::pin!(notified);
            // This task registers before it checks the condition, so that it does not miss a notification in between.
            notified.as_mut().enable();
            if let Some(result) = condition(&mut self.lock()) {
                return Some(result);
            }
            if tokio::time::timeout_at(deadline, notified).await.is_err() {
                return condition(&mut self.lock());
            }
        }
    }

    /// Waits until [`take`](Self::take) may return rows or an error, or until `deadline`. `first` returns true if an
    /// event of a higher priority is available.
    pub(crate) async fn wait_ready(&self, deadline: tokio::time::Instant, first: impl Fn() -> bool) {
        let _waiting = Waiting::new(self);
        self.record_poll();
        self.wait_for(deadline, |state| {
            let result = state.closed || first() || state.has_next();
            if !result && state.is_blocked_on_decode() {
                self.notify_capacity();
            }
            result.then_some(())
        })
        .await;
    }

    /// Returns at most `limit` rows if any are available; takes no rows if `limit` is `None`. A value returned by
    /// `first` takes precedence over rows.
    pub(crate) fn take<T>(
        &self,
        limit: Option<usize>,
        first: impl FnOnce() -> Option<Result<T>>,
        rows: impl FnOnce(Rows) -> T,
    ) -> Option<Result<T>> {
        let (result, notify) = {
            let mut state = self.lock();
            let queue_length = state.queue.len();
            let result = match state.closed {
                true => Some(Err(Error::closed("the consumer"))),
                false => first().or_else(|| {
                    let next = state.next(limit?)?;
                    let with_topics = |Rows { batch, next }| {
                        let batch = batch.map(|batch| self.with_topics(batch)).transpose()?;
                        Ok(rows(Rows { batch, next }))
                    };
                    Some(next.and_then(with_topics))
                }),
            };
            // If there is no result but the queue is shorter, invalid records were dropped. This may have freed
            // capacity for the records that polls wait for, or have made their slot the first one.
            let freed = result.as_ref().map_or(state.queue.len() < queue_length, Result::is_ok);
            (result, freed && state.take_ready_waiter())
        };
        match &result {
            // The partitions of the error must be fetched again.
            Some(Err(_)) => self.notify_tasks(),
            _ if notify => self.notify_capacity(),
            _ => {}
        }
        result
    }

    /// Returns `batch` with a dictionary that contains the topics of all earlier batches.
    pub(crate) fn with_topics(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let rejected = |error| Error::corrupt(format!("Arrow rejects the dictionary of topics: {error}"));
        self.topics.renew(batch).map_err(rejected)
    }

    /// Records that a poll waits. The application has then finished its changes to the assignment and the positions.
    pub(super) fn record_poll(&self) {
        let notify = self.lock().take_awaits_poll();
        if notify {
            self.notify_capacity();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(crate) fn close(&self) {
        self.lock().close();
        self.pool.close();
        self.notify_tasks();
        self.notify_poll();
    }

    /// Rewinds partitions whose records were lost when the task of `node` failed, so that they can be fetched again.
    pub(super) fn recover(&self, node: i32) {
        self.lock().recover(node);
        self.notify_tasks();
    }
}

/// Guard of a poll that waits for rows.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.lock().waiting += 1;
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl Source for Shared {
    fn collect(&self, sink: &mut Sink) {
        let state = self.lock();
        state.meters.collect(sink);
        sink.unlabeled(Id::QueuedBytes, state.queued as f64);
        sink.unlabeled(Id::AssignedPartitions, state.cursors.len() as f64);
        let (mut lag, mut lead) = (None::<i64>, None::<i64>);
        for (tp, cursor) in &state.cursors {
            let (Some(position), Some(log)) = (cursor.position, cursor.log) else { continue };
            // The position may be past the end that was last reported.
            let behind = log.end.saturating_sub(position).max(0);
            lag = lag.max(Some(behind));
            sink.number(Id::RecordsLag, Label::Partition(tp.clone()), behind as f64);
            if let Some(start) = log.start {
                let ahead = position.saturating_sub(start).max(0);
                lead = Some(lead.map_or(ahead, |min| min.min(ahead)));
                sink.number(Id::RecordsLead, Label::Partition(tp.clone()), ahead as f64);
            }
        }
        for (id, value) in [(Id::RecordsLagMax, lag), (Id::RecordsLeadMin, lead)] {
            if let Some(value) = value {
                sink.unlabeled(id, value as f64);
            }
        }
    }
}

#[cfg(test)]
impl Shared {
    /// Waits for rows until `deadline`.
    pub(super) async fn poll(&self, limit: usize, deadline: tokio::time::Instant) -> Option<Result<RecordBatch>> {
        loop {
            let result = self.take(Some(limit), || None, |rows| rows.batch).and_then(Result::transpose);
            if result.is_some() || tokio::time::Instant::now() >= deadline {
                return result;
            }
            self.wait_ready(deadline, || false).await;
        }
    }

    /// Returns the state with partition t-0 assigned at offset 0, the partition, and the version of its cursor.
    pub(super) fn at_start(memory: usize) -> (std::sync::Arc<Self>, TopicPartition, u64) {
        let shared = std::sync::Arc::new(Self::new(memory));
        let tp = TopicPartition::new("t", 0);
        shared.assign(std::slice::from_ref(&tp));
        shared.seek(&[(tp.clone(), Some(0), None)]).unwrap();
        let version = shared.lock().cursors[&tp].version;
        (shared, tp, version)
    }
}
