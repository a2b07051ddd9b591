//! State shared by the consumer and its fetch tasks, and the signals that they wait on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use samsarrow_arrow::{Pool, Topics};
use tokio::sync::{Notify, watch};

use super::queue::Item;
use super::rows::Rows;
use super::state::State;
use crate::error::{Error, Result};
use crate::metrics::{Id, Label, Sink, Source};
use crate::types::TopicPartition;

/// The state with the bells that ring for its changes.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Dictionary of topics. All assigned topics are added before their rows arrive, so that batches share one
    /// dictionary, as files of Arrow's IPC format require.
    pub(super) topics: Topics,
    /// Memory of decoded columns.
    pub(super) pool: Pool,
    /// Rings for `poll`: something is in the queue, or a position is known.
    ready: Notify,
    /// Rings for all tasks: something may have to be fetched from elsewhere, or its start found.
    work: watch::Sender<()>,
    /// Notifies fetch tasks: of the same, and with each poll, which may have freed capacity.
    room: watch::Sender<()>,
}

impl Shared {
    /// `memory` is the most that may be queued.
    pub(super) fn new(memory: usize) -> Self {
        Self {
            state: Mutex::new(State::new(memory)),
            topics: Topics::default(),
            pool: Pool::new(memory),
            ready: Notify::new(),
            work: watch::Sender::new(()),
            room: watch::Sender::new(()),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ring_ready(&self) {
        self.ready.notify_waiters();
    }

    /// Parts of answers are in the queue now, or have their place there.
    pub(super) fn placed(&self, parts: &[(TopicPartition, u64)]) {
        let mut state = self.lock();
        for (tp, version) in parts {
            if let Some(cursor) = state.at_version(tp, *version) {
                cursor.undecoded.0 = cursor.undecoded.0.saturating_sub(1);
            }
        }
        let waited = std::mem::take(&mut state.overtaking);
        drop(state);
        if waited {
            self.ring_work();
        }
    }

    pub(super) fn ring_work(&self) {
        self.work.send_replace(());
        self.ring_room();
    }

    pub(super) fn ring_room(&self) {
        self.room.send_replace(());
    }

    pub(super) fn work(&self) -> watch::Receiver<()> {
        self.work.subscribe()
    }

    pub(super) fn room(&self) -> watch::Receiver<()> {
        self.room.subscribe()
    }

    pub(super) fn push(&self, item: Item) {
        self.lock().queue.push_back(item);
        self.ring_ready();
    }

    /// Waits until `look` finds something, or `deadline`.
    pub(super) async fn wait_for<T>(
        &self,
        deadline: tokio::time::Instant,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        loop {
            let bell = self.ready.notified();
            tokio::pin!(bell);
            // Listening starts before looking: a ring in between is not missed.
            bell.as_mut().enable();
            if let Some(found) = look(&mut self.lock()) {
                return Some(found);
            }
            if tokio::time::timeout_at(deadline, bell).await.is_err() {
                return look(&mut self.lock());
            }
        }
    }

    /// Waits until [`take`](Self::take) may find something, or until `deadline`; `first` returns true if an event of a
    /// higher priority is available.
    pub(crate) async fn ready(&self, deadline: tokio::time::Instant, first: impl Fn() -> bool) {
        let _waiting = Waiting::new(self);
        self.polled();
        self.wait_for(deadline, |state| {
            let found = state.closed || first() || state.has_next();
            if !found && state.is_stuck() {
                self.ring_room();
            }
            found.then_some(())
        })
        .await;
    }

    /// The next rows, at most `limit`, if there are any; none are looked for without a limit. What `first` finds comes before
    /// rows. Nothing is taken but what is returned.
    pub(crate) fn take<T>(
        &self,
        limit: Option<usize>,
        first: impl FnOnce() -> Option<Result<T>>,
        rows: impl FnOnce(Rows) -> T,
    ) -> Option<Result<T>> {
        let (found, wanted) = {
            let mut state = self.lock();
            let waited = state.queue.len();
            let found = match state.closed {
                true => Some(Err(Error::closed("the consumer"))),
                false => first().or_else(|| {
                    let next = state.next(limit?)?;
                    let renewed = |Rows { batch, next }| {
                        let batch = batch.map(|batch| self.with_topics(batch)).transpose()?;
                        Ok(rows(Rows { batch, next }))
                    };
                    Some(next.and_then(renewed))
                }),
            };
            // Unneeded records may have been dropped: capacity for the records that polls wait for is free, or their
            // slot is the first now.
            let made = found.as_ref().map_or(state.queue.len() < waited, Result::is_ok);
            (found, made && state.wants_room())
        };
        match &found {
            // The partition that it was about is fetched again.
            Some(Err(_)) => self.ring_work(),
            _ if wanted => self.ring_room(),
            _ => {}
        }
        found
    }

    /// A batch with all topics in its dictionary that any batch before had.
    pub(crate) fn with_topics(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let refused = |error| Error::corrupt(format!("Arrow refuses the dictionary of topics: {error}"));
        self.topics.renew(batch).map_err(refused)
    }

    /// Registers that a poll waits: changes of the application are complete.
    pub(super) fn polled(&self) {
        let awaited = self.lock().take_awaits_poll();
        if awaited {
            self.ring_room();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(crate) fn close(&self) {
        self.lock().close();
        self.pool.close();
        self.ring_work();
        self.ring_ready();
    }

    /// The task that read from `node` has failed: others may go on with what it had.
    pub(super) fn recover(&self, node: i32) {
        self.lock().recover(node);
        self.ring_work();
    }
}

/// A poll that waits for rows, until it is dropped.
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
            // A position may lie past an end that is old.
            let behind = log.end.saturating_sub(position).max(0);
            lag = lag.max(Some(behind));
            sink.number(Id::RecordsLag, Label::Partition(tp.clone()), behind as f64);
            if let Some(start) = log.start {
                let ahead = position.saturating_sub(start).max(0);
                lead = Some(lead.map_or(ahead, |least| least.min(ahead)));
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
    /// The next rows, once there are any until `deadline`.
    pub(super) async fn poll(&self, limit: usize, deadline: tokio::time::Instant) -> Option<Result<RecordBatch>> {
        loop {
            let found = self.take(Some(limit), || None, |rows| rows.batch).and_then(Result::transpose);
            if found.is_some() || tokio::time::Instant::now() >= deadline {
                return found;
            }
            self.ready(deadline, || false).await;
        }
    }

    /// With partition t-0 assigned, at offset 0, and the version of its cursor.
    pub(super) fn at_start(memory: usize) -> (std::sync::Arc<Self>, TopicPartition, u64) {
        let shared = std::sync::Arc::new(Self::new(memory));
        let tp = TopicPartition::new("t", 0);
        shared.assign(std::slice::from_ref(&tp));
        shared.seek(&[(tp.clone(), Some(0), None)]).unwrap();
        let version = shared.lock().cursors[&tp].version;
        (shared, tp, version)
    }
}
