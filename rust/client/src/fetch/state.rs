//! What the user's calls and the fetching tasks share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use samsarrow_wire::error_code::ErrorCode;
use tokio::sync::{Notify, watch};

use super::cursor::{Cursor, Start};
use super::queue::{Chunk, Epochs, Failed, Item, Segment, take};
use super::request::Asked;
use crate::error::{Error, Result};
use crate::types::{TopicPartition, some_of};

/// Partitions, positions and the queue, behind one short lock that is never held across an await.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) cursors: BTreeMap<TopicPartition, Cursor>,
    pub(super) queue: VecDeque<Item>,
    /// Bytes of the chunks in the queue.
    pub(super) queued: usize,
    /// Bytes that requests under way may still bring.
    pub(super) reserved: usize,
    /// Brokers that share the memory, when a round was last planned.
    pub(super) sharers: usize,
    pub(super) closed: bool,
    /// A broker waits for another's answer to be decoded, so that it does not overtake it.
    pub(super) overtaking: bool,
    /// What the last poll moved, and from where: the program may not be done with it.
    given: Vec<Given>,
    versions: u64,
    places: u64,
}

/// A partition that the last poll gave rows of.
#[derive(Debug)]
struct Given {
    tp: TopicPartition,
    version: u64,
    position: Option<i64>,
    epoch: i32,
}

impl State {
    pub(super) fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    /// Keeps the end of the queue for what `bytes` of an answer will be.
    pub(super) fn keep_place(&mut self, bytes: usize) -> u64 {
        self.places += 1;
        self.queued += bytes;
        self.queue.push_back(Item::Kept(self.places));
        self.places
    }

    /// Where a kept place is now; nowhere once the consumer is closed.
    pub(super) fn place_of(&self, number: u64) -> Option<usize> {
        self.queue.iter().position(|item| matches!(item, Item::Kept(kept) if *kept == number))
    }

    /// All that was to come there is before it.
    pub(super) fn give_place_back(&mut self, number: u64, bytes: usize) {
        if let Some(at) = self.place_of(number) {
            self.queue.remove(at);
            self.queued = self.queued.saturating_sub(bytes);
        }
    }

    /// The cursor, if it is still at `version`.
    pub(super) fn at_version(&mut self, tp: &TopicPartition, version: u64) -> Option<&mut Cursor> {
        self.cursors.get_mut(tp).filter(|cursor| cursor.version == version)
    }

    /// The next rows or the next error, if there are any. Positions move past the rows that are returned.
    fn next(&mut self, limit: usize) -> Option<Result<RecordBatch>> {
        loop {
            match self.queue.pop_front()? {
                kept @ Item::Kept(_) => {
                    self.queue.push_front(kept);
                    return None;
                }
                Item::Error(error) => return Some(Err(error)),
                Item::Failed(failed) => {
                    if let Some(error) = self.take_failed(failed) {
                        return Some(Err(error));
                    }
                }
                Item::Chunk(chunk) => {
                    self.queued = self.queued.saturating_sub(chunk.bytes);
                    let cursors = &self.cursors;
                    let taken = take(chunk, limit, |s| cursors.get(&s.tp).is_some_and(|c| c.version == s.version));
                    for segment in taken.moved {
                        // Not `at_version`: the borrow would be of all of self.
                        let found = self.cursors.get_mut(&segment.tp).filter(|c| c.version == segment.version);
                        if let Some(cursor) = found {
                            let (position, epoch) = (cursor.position, cursor.position_epoch);
                            self.given.push(Given { tp: segment.tp, version: segment.version, position, epoch });
                            cursor.position = Some(segment.next_offset);
                            cursor.position_epoch = segment.epochs.before(segment.next_offset);
                        }
                    }
                    if let Some(rest) = taken.rest {
                        self.queued += rest.bytes;
                        self.queue.push_front(Item::Chunk(rest));
                    }
                    if taken.rows.num_rows() > 0 {
                        return Some(Ok(taken.rows));
                    }
                }
            }
        }
    }

    /// The partition stops until the error was raised.
    pub(super) fn raise(&mut self, tp: &TopicPartition, version: u64, error: Error) {
        let Some(cursor) = self.at_version(tp, version) else { return };
        cursor.failed = true;
        cursor.failing = None;
        let one = (tp.clone(), version);
        match self.queue.back_mut() {
            Some(Item::Failed(failed)) if failed.has_cause_of(&error) => failed.partitions.push(one),
            _ => self.queue.push_back(Item::Failed(Failed { partitions: vec![one], error })),
        }
    }

    /// The error, if it still concerns anybody: those partitions are fetched again from where the user is, unless they
    /// seek past it.
    fn take_failed(&mut self, Failed { partitions, error }: Failed) -> Option<Error> {
        let mut of = Vec::new();
        for (tp, version) in partitions {
            let again = self.next_version();
            if let Some(cursor) = self.at_version(&tp, version) {
                cursor.rewind(again);
                of.push(tp);
            }
        }
        match of.len() {
            0 => None,
            1 => Some(error),
            _ => Some(error.context(format!("reading {}", some_of(of)))),
        }
    }

    /// The task that read from `node` has failed: what it had and did not put into the queue is fetched again.
    pub(super) fn recover(&mut self, node: i32) {
        for cursor in self.cursors.values_mut().filter(|c| c.undecoded.0 > 0 && c.undecoded.1 == node) {
            self.versions += 1;
            cursor.rewind(self.versions);
        }
    }

    /// Reading of a partition goes on at `offset`: at once, or behind what is queued already.
    pub(super) fn place(&mut self, tp: &TopicPartition, version: u64, offset: i64, epoch: i32) {
        let Some(cursor) = self.at_version(tp, version) else { return };
        cursor.fetch_offset = Some(offset);
        cursor.last_epoch = epoch;
        if cursor.position.is_none() {
            cursor.position = Some(offset);
            cursor.position_epoch = epoch;
        } else {
            let epochs = Epochs::new(epoch, &[]);
            let segment = Segment { tp: tp.clone(), version, rows: 0, next_offset: offset, epochs };
            let batch = RecordBatch::new_empty(Arc::new(Schema::empty()));
            self.queue.push_back(Item::Chunk(Chunk { batch, segments: vec![segment], bytes: 0 }));
        }
    }

    /// Records that an answer for a partition was an error that may heal; raises it when it did not for `patience`.
    pub(super) fn partition_failed(&mut self, tp: &TopicPartition, version: u64, error: Error, patience: Duration) {
        // Java's client takes this one for a passing trouble of the broker too.
        let passes = error.retriable() || error.code() == Some(ErrorCode::UNKNOWN_SERVER_ERROR.code());
        self.failed(tp, version, error, patience, !passes);
    }

    /// The same, whatever the error says of itself: raised only when it lasts.
    pub(super) fn partition_stuck(&mut self, tp: &TopicPartition, version: u64, error: Error, patience: Duration) {
        self.failed(tp, version, error, patience, false);
    }

    /// The same for partitions that failed together: raised for all when it lasted for one.
    pub(super) fn round_failed(&mut self, asked: &[Asked], error: &Error, patience: Duration) {
        let now = Instant::now();
        let last = |cursor: &Cursor| cursor.failing.as_ref().is_some_and(|(since, _)| now - *since > patience);
        let lasts = asked.iter().any(|one| self.at_version(&one.tp, one.version).is_some_and(|cursor| last(cursor)));
        let patience = if lasts { Duration::ZERO } else { patience };
        for one in asked {
            let error = error.clone().context(format!("Fetch of {} at offset {}", one.tp, one.offset));
            self.partition_failed(&one.tp, one.version, error, patience);
        }
    }

    fn failed(&mut self, tp: &TopicPartition, version: u64, error: Error, patience: Duration, raise: bool) {
        let now = Instant::now();
        let Some(cursor) = self.at_version(tp, version) else { return };
        // The leader knows best.
        cursor.replica = None;
        let since = cursor.failing.as_ref().map_or(now, |(since, _)| *since);
        cursor.failing = Some((since, error.clone()));
        cursor.retry_at = Some(now + RETRY);
        if raise || patience.is_zero() || now - since > patience {
            self.raise(tp, version, error);
        }
    }
}

/// An offset, and the leader epoch of the record before it.
pub(super) type Place = (i64, Option<i32>);

/// How long a partition whose fetch failed is left alone.
pub(super) const RETRY: Duration = Duration::from_millis(100);

/// The state with the bells that tell of its changes.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Rings for `poll`: something is in the queue, or a position is known.
    ready: Notify,
    /// Rings for all tasks: something may have to be fetched from elsewhere, or its start found.
    work: watch::Sender<()>,
    /// Rings for those that fetch: for the same, and with each poll, as there may be room for more.
    room: watch::Sender<()>,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::default(),
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
                false => first().or_else(|| state.next(limit).map(|next| next.map(&rows))),
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

    // ---- what the user says ----

    pub(crate) fn assign(&self, partitions: &[TopicPartition]) {
        {
            let mut state = self.lock();
            state.cursors.retain(|tp, _| partitions.contains(tp));
            for tp in partitions {
                if !state.cursors.contains_key(tp) {
                    let version = state.next_version();
                    state.cursors.insert(tp.clone(), Cursor::new(version));
                }
            }
        }
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

    /// Seeks; without an offset the committed one is looked up again. The epoch is that of the record before.
    pub(crate) fn seek(&self, tp: &TopicPartition, offset: Option<i64>, epoch: Option<i32>) -> Result<()> {
        self.change(tp, |cursor, version| cursor.seek(offset, epoch.unwrap_or(-1), version))
    }

    pub(crate) fn set_paused(&self, tp: &TopicPartition, paused: bool) -> Result<()> {
        self.change(tp, |cursor, version| {
            if paused && !cursor.paused {
                cursor.rewind(version);
            }
            cursor.paused = paused;
        })
    }

    fn change(&self, tp: &TopicPartition, change: impl FnOnce(&mut Cursor, u64)) -> Result<()> {
        {
            let mut state = self.lock();
            let version = state.next_version();
            let cursor = state.cursors.get_mut(tp).ok_or_else(|| not_assigned(tp))?;
            change(cursor, version);
        }
        self.ring_work();
        self.ring_ready();
        Ok(())
    }

    /// The program is done with what it was given so far.
    pub(crate) fn finish(&self) {
        self.lock().given.clear();
    }

    /// As [`positions`](Self::positions), without what the last poll gave.
    pub(crate) fn finished(&self) -> Vec<(TopicPartition, i64, Option<i32>)> {
        let state = self.lock();
        let finished = state.cursors.iter().filter_map(|(tp, cursor)| {
            let before = state.given.iter().find(|given| given.version == cursor.version && given.tp == *tp);
            let (position, epoch) =
                before.map_or((cursor.position, cursor.position_epoch), |given| (given.position, given.epoch));
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

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub(crate) fn close(&self) {
        {
            let mut state = self.lock();
            state.closed = true;
            state.cursors.clear();
            state.queue.clear();
            state.queued = 0;
        }
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
