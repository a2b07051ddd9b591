//! The state with the bells that tell of its changes, and what the user's calls do with it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use samsarrow_arrow::Topics;
use tokio::sync::{Notify, watch};

use super::cursor::Start;
use super::positions::Silent;
use super::queue::Item;
use super::state::{Place, State};
use crate::error::{Error, Result};
use crate::types::TopicPartition;

/// How old what a broker told of a partition's end may be.
const FRESH: Duration = Duration::from_secs(1);

/// The state with the bells that tell of its changes.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// What decoders write topics with. All that are assigned are in it before rows of them come, so that batches have the
    /// same one: files of Arrow's IPC format want that.
    pub(super) topics: Topics,
    /// Rings for `poll`: something is in the queue, or a position is known.
    ready: Notify,
    /// Rings for all tasks: something may have to be fetched from elsewhere, or its start found.
    work: watch::Sender<()>,
    /// Rings for those that fetch: for the same, and with each poll, as there may be room for more.
    room: watch::Sender<()>,
}

impl Shared {
    /// `memory` is the most that may be queued.
    pub(super) fn new(memory: usize) -> Self {
        Self {
            state: Mutex::new(State::new(memory)),
            topics: Topics::default(),
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

    /// The next rows, at most `limit`; `None` when nothing came until `deadline`. What `first` finds comes before rows.
    pub(crate) async fn poll<T>(
        &self,
        limit: usize,
        deadline: tokio::time::Instant,
        first: impl Fn() -> Option<Result<T>>,
        rows: impl Fn(RecordBatch) -> T,
    ) -> Option<Result<T>> {
        let found = self
            .wait_for(deadline, |state| match state.closed {
                true => Some(Err(Error::closed("the consumer"))),
                false => first().or_else(|| {
                    let next = state.next(limit);
                    if next.is_none() && state.is_stuck() {
                        self.ring_room();
                    }
                    next.map(|next| next.and_then(|batch| self.with_topics(batch)).map(&rows))
                }),
            })
            .await;
        match &found {
            Some(Ok(_)) => self.ring_room(),
            // The partition that it was about is fetched again.
            Some(Err(_)) => self.ring_work(),
            None => {}
        }
        found
    }

    /// A batch with all topics in its dictionary that any batch before had.
    pub(crate) fn with_topics(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let refused = |error| Error::corrupt(format!("Arrow refuses the dictionary of topics: {error}"));
        self.topics.renew(batch).map_err(refused)
    }

    // ---- what the user says ----

    pub(crate) fn assign(&self, partitions: &[TopicPartition]) {
        let names: BTreeSet<&Arc<str>> = partitions.iter().map(|tp| &tp.topic).collect();
        for name in names {
            self.topics.code(name);
        }
        self.lock().assign(partitions);
        self.ring_work();
    }

    pub(crate) fn assignment(&self) -> Vec<TopicPartition> {
        self.lock().cursors.keys().cloned().collect()
    }

    pub(crate) fn nothing_assigned(&self) -> bool {
        self.lock().cursors.is_empty()
    }

    pub(crate) fn paused(&self) -> Vec<TopicPartition> {
        let state = self.lock();
        state.cursors.iter().filter(|(_, cursor)| cursor.paused).map(|(tp, _)| tp.clone()).collect()
    }

    /// Seeks, all or none of them; without an offset the committed one is looked up again. The epoch is that of the record
    /// before.
    pub(crate) fn seek(&self, to: &[(TopicPartition, Option<i64>, Option<i32>)]) -> Result<()> {
        self.change(to.iter(), |(tp, ..)| tp, |state, (tp, offset, epoch)| state.seek(tp, *offset, *epoch))
    }

    /// Pauses or resumes all or none of these.
    pub(crate) fn set_paused(&self, partitions: &[TopicPartition], paused: bool) -> Result<()> {
        self.change(partitions.iter(), |tp| tp, |state, tp| state.set_paused(tp, paused))
    }

    fn change<T>(
        &self,
        given: impl Iterator<Item = T> + Clone,
        of: impl Fn(&T) -> &TopicPartition,
        mut change: impl FnMut(&mut State, T),
    ) -> Result<()> {
        {
            let mut state = self.lock();
            if let Some(missing) = given.clone().find(|one| !state.cursors.contains_key(of(one))) {
                return Err(not_assigned(of(&missing)));
            }
            given.for_each(|one| change(&mut state, one));
        }
        self.ring_work();
        self.ring_ready();
        Ok(())
    }

    /// The program is done with what it was given so far.
    pub(crate) fn finish(&self) {
        self.lock().finish();
    }

    /// As [`positions`](Self::positions), without what the last poll gave.
    pub(crate) fn finished(&self) -> Vec<(TopicPartition, i64, Option<i32>)> {
        let state = self.lock();
        let finished = state.cursors.iter().filter_map(|(tp, cursor)| {
            let (position, epoch) = state.finished(tp, cursor);
            Some((tp.clone(), position?, Some(epoch).filter(|epoch| *epoch >= 0)))
        });
        finished.collect()
    }

    /// Whether rows of a partition can be given: it is assigned.
    pub(crate) fn is_assigned(&self, tp: &TopicPartition) -> bool {
        self.lock().cursors.contains_key(tp)
    }

    /// Positions that are known, of all assigned partitions, with the leader epoch of the record before.
    pub(crate) fn positions(&self) -> Vec<(TopicPartition, i64, Option<i32>)> {
        let state = self.lock();
        let known = state.cursors.iter().filter_map(|(tp, c)| Some((tp.clone(), c.position?, c.position_epoch)));
        known.map(|(tp, position, epoch)| (tp, position, Some(epoch).filter(|epoch| *epoch >= 0))).collect()
    }

    /// Ends of assigned partitions as brokers told them with their last answers, where those are of the last second:
    /// high watermarks, or last stable offsets.
    pub(crate) fn ends(&self, stable: bool) -> HashMap<TopicPartition, i64> {
        let state = self.lock();
        let now = Instant::now();
        let fresh = |node: i32| state.answered.get(&node).is_some_and(|at| now.duration_since(*at) < FRESH);
        let ends = state.cursors.iter().filter_map(|(tp, cursor)| {
            let ends = cursor.ends.filter(|ends| !cursor.paused && fresh(ends.node))?;
            Some((tp.clone(), if stable { ends.stable } else { ends.high_watermark }))
        });
        ends.collect()
    }

    /// The position of a partition, once it is known; the error that keeps it from being known is raised here too.
    pub(crate) async fn position(&self, tp: &TopicPartition, deadline: tokio::time::Instant) -> Option<Result<i64>> {
        self.wait_for(deadline, |state| {
            if state.closed {
                return Some(Err(Error::closed("the consumer")));
            }
            let Some(cursor) = state.cursors.get(tp) else { return Some(Err(not_assigned(tp))) };
            if let Some(position) = cursor.position {
                return Some(Ok(position));
            }
            let at = state.queue.iter().position(|item| match item {
                Item::Error(_) => true,
                Item::Failed(failed) => failed.partitions.iter().any(|(of, _)| of == tp),
                Item::Chunk(_) | Item::Kept(_) => false,
            })?;
            match state.queue.remove(at)? {
                Item::Failed(failed) => state.take_failed(failed).map(Err),
                Item::Error(error) => Some(Err(error)),
                Item::Chunk(_) | Item::Kept(_) => None,
            }
        })
        .await
    }

    /// What went wrong last with a partition that is not read.
    pub(crate) fn trouble(&self, tp: &TopicPartition) -> Option<Error> {
        Some(self.lock().cursors.get(tp)?.failing.as_ref()?.error.clone())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(crate) fn close(&self) {
        self.lock().close();
        self.ring_work();
        self.ring_ready();
    }

    // ---- what the positioner says ----

    /// Partitions whose start is not known.
    pub(super) fn unplaced(&self) -> Vec<(TopicPartition, u64, Start)> {
        let state = self.lock();
        let open = state.cursors.iter().filter(|(_, c)| c.fetch_offset.is_none() && !c.failed);
        open.map(|(tp, c)| (tp.clone(), c.version, c.start)).collect()
    }

    /// No broker could be asked where these start.
    pub(super) fn unanswered(&self, silent: &[Silent]) {
        let mut state = self.lock();
        for ((tp, version, _), error) in silent {
            state.unanswered(tp, *version, error.clone());
        }
    }

    /// Where reading of partitions goes on, or why that cannot be known.
    pub(super) fn placed_at(&self, found: impl IntoIterator<Item = (TopicPartition, u64, Result<Place>)>) {
        {
            let mut state = self.lock();
            for (tp, version, found) in found {
                match found {
                    Ok((offset, epoch)) => state.place(&tp, version, offset, epoch.unwrap_or(-1)),
                    Err(error) => state.raise(&tp, version, error),
                }
            }
        }
        self.ring_ready();
        self.ring_work();
    }
}

fn not_assigned(tp: &TopicPartition) -> Error {
    Error::configuration(format!("partition {tp} is not assigned to this consumer: call assign first"))
}

#[cfg(test)]
impl Shared {
    /// With partition t-0 assigned, at offset 0, and the version of its cursor.
    pub(super) fn at_start(memory: usize) -> (Arc<Self>, TopicPartition, u64) {
        let shared = Arc::new(Self::new(memory));
        let tp = TopicPartition::new("t", 0);
        shared.assign(std::slice::from_ref(&tp));
        shared.seek(&[(tp.clone(), Some(0), None)]).unwrap();
        let version = shared.lock().cursors[&tp].version;
        (shared, tp, version)
    }
}
