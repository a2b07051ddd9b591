//! Partitions, positions and queue of a consumer, changed by fetch tasks and by the application's calls.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Array, RecordBatch, TimestampMillisecondArray};
use arrow_schema::Schema;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;

use super::cursor::Cursor;
use super::decode_slots::DecodeSlots;
use super::old_topics::OldTopics;
use super::partition_request::FetchPartitionRequest;
use super::paused_buffer::PausedBuffer;
use super::queue::{Chunk, Epochs, Failed, Fate, Item, Segment, offset_at, take};
use super::rows::{NextOffset, Rows};
use crate::clock::now_ms;
use crate::error::{Error, Result};
use crate::metrics::ReadMeters;
use crate::types::{TopicPartition, join_limited};

/// Delay before a partition is fetched again after an error.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Guarded by one lock, which is held briefly and never across an await.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) cursors: BTreeMap<TopicPartition, Cursor>,
    pub(super) queue: VecDeque<Item>,
    /// Slots of the queue with records not decoded yet.
    pub(super) decode_slots: DecodeSlots,
    /// Rows of paused partitions.
    pub(super) paused_buffer: PausedBuffer,
    /// Maximum size of the queue.
    pub(super) memory: usize,
    /// Bytes of the chunks in the queue, and of records that wait to be decoded in a slot.
    pub(super) queued: usize,
    /// Maximum bytes of responses in flight.
    pub(super) reserved: usize,
    /// Number of brokers that shared the memory when a round was last planned.
    pub(super) fetching_brokers: usize,
    /// Capacity that idle brokers wait for; 0 if they wait for any poll.
    pub(super) wanted_capacity: Option<usize>,
    /// Time of the last Fetch response of each broker.
    pub(super) last_response: HashMap<i32, Instant>,
    pub(super) closed: bool,
    /// True if the application has assigned or sought partitions since the last poll: a request for the first partition
    /// alone would make the others wait for its response, which may take `fetch.max.wait.ms`.
    pub(super) changing: bool,
    /// Number of polls.
    pub(super) polls: u64,
    /// True if a broker is sent no request until the next poll.
    awaits_poll: bool,
    /// Number of polls that wait for rows. A concurrent seek takes effect without another poll.
    pub(super) waiting: usize,
    /// True if a fetch waits until another broker's records are decoded, so that it does not overtake them.
    pub(super) blocked_on_decode: bool,
    /// Position and epoch before the rows of the last poll, which the application may not have finished.
    last_delivered: HashMap<TopicPartition, (Option<i64>, i32)>,
    /// True if a position has reached the end of a bounded read since the last poll returned.
    end_reached: bool,
    versions: u64,
    pub(super) old_topics: OldTopics,
    /// Topic ids of formerly assigned partitions. If a partition returns with another id, the group's offsets may still
    /// be those of the deleted topic: brokers remove them after the new topic was created.
    topic_ids: HashMap<TopicPartition, Uuid>,
    pub(super) meters: ReadMeters,
}

impl State {
    /// Creates the state. `memory` is the maximum size of the queue.
    pub(super) fn new(memory: usize) -> Self {
        Self { memory, ..Self::default() }
    }

    pub(super) fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    /// Returns the cursor if it still has this version.
    pub(super) fn at_version(&mut self, tp: &TopicPartition, version: u64) -> Option<&mut Cursor> {
        self.cursors.get_mut(tp).filter(|cursor| cursor.version == version)
    }

    // ---- polls ----

    /// Returns true if [`next`](Self::next) would return or park something.
    pub(super) fn has_next(&self) -> bool {
        self.end_reached || self.queue.front().is_some_and(|item| !matches!(item, Item::Slot(_)))
    }

    /// Returns the next rows or error, if any, and moves positions past the rows. Returns no rows if only the end of a
    /// bounded read was reached.
    pub(super) fn next(&mut self, limit: usize) -> Option<Result<Rows>> {
        loop {
            match self.queue.pop_front() {
                None => return std::mem::take(&mut self.end_reached).then(|| Ok(Rows::default())),
                Some(slot @ Item::Slot(_)) => {
                    self.queue.push_front(slot);
                    return std::mem::take(&mut self.end_reached).then(|| Ok(Rows::default()));
                }
                Some(item) => {
                    if let Some(result) = self.take_item(item, limit) {
                        return Some(result);
                    }
                }
            }
        }
    }

    fn take_item(&mut self, item: Item, limit: usize) -> Option<Result<Rows>> {
        match item {
            Item::Slot(_) => None,
            Item::Error(error) => Some(Err(error)),
            Item::Failed(failed) => {
                let failed = self.park_failed(failed);
                self.take_failed(failed).map(Err)
            }
            Item::Chunk(chunk) => {
                let mut next = BTreeMap::new();
                let rows = self.take_rows(chunk, limit, &mut next)?;
                self.end_reached = false;
                Some(Ok(Rows { batch: Some(rows), next: next.into_values().collect() }))
            }
        }
    }

    /// Takes the rows of a chunk that may be returned now, and adds the positions after them to `next`.
    fn take_rows(
        &mut self,
        chunk: Chunk,
        limit: usize,
        next: &mut BTreeMap<TopicPartition, NextOffset>,
    ) -> Option<RecordBatch> {
        self.queued = self.queued.saturating_sub(chunk.bytes);
        let cursors = &self.cursors;
        let fate = |segment: &Segment| match cursors.get(&segment.tp).filter(|c| c.version == segment.version) {
            Some(cursor) if cursor.paused || cursor.is_at_end() => Fate::Park,
            Some(_) => Fate::Deliver,
            None => Fate::Drop,
        };
        let taken = take(chunk, limit, fate, |segment| cursors.get(&segment.tp)?.until);
        let now = Instant::now();
        self.meters.rows_returned(now, taken.rows.num_rows());
        if self.meters.by_row {
            age_rows(&mut self.meters, &taken.rows);
        }
        let mut row = 0;
        for segment in taken.moved {
            self.meters.topic_rows_returned(now, &segment.tp.topic, segment.rows);
            row += segment.rows;
            let last_row = if segment.rows == 0 { None } else { offset_at(&taken.rows, row - 1) };
            // `at_version` would borrow all of self.
            let cursor = self.cursors.get_mut(&segment.tp).filter(|c| c.version == segment.version);
            if let Some(cursor) = cursor {
                let before = (cursor.position, cursor.position_epoch);
                let epoch = segment.epochs.before(segment.next_offset);
                cursor.advance(segment.next_offset, epoch, last_row);
                self.end_reached |= cursor.is_at_end();
                if let Some(last_row) = last_row {
                    let after = NextOffset {
                        partition: segment.tp.clone(),
                        last_row,
                        offset: segment.next_offset,
                        leader_epoch: epoch,
                        topic_id: cursor.topic_id,
                    };
                    next.insert(segment.tp.clone(), after);
                } else if let Some(after) = next.get_mut(&segment.tp) {
                    (after.offset, after.leader_epoch) = (segment.next_offset, epoch);
                }
                self.last_delivered.entry(segment.tp).or_insert(before);
            }
        }
        if let Some(rest) = taken.rest {
            self.queued += rest.bytes;
            self.queue.push_front(Item::Chunk(rest));
        }
        if let Some((tp, chunk)) = taken.parked {
            self.park(&tp, chunk);
        }
        (taken.rows.num_rows() > 0).then_some(taken.rows)
    }

    /// Parks rows of a paused partition, or drops them to be fetched again if parked rows take half of the memory.
    fn park(&mut self, tp: &TopicPartition, chunk: Chunk) {
        if self.paused_buffer.bytes() + chunk.bytes <= self.memory / 2 {
            return self.paused_buffer.push(tp, Item::Chunk(chunk));
        }
        let version = self.next_version();
        let Some(cursor) = self.cursors.get_mut(tp) else { return };
        cursor.rewind(version);
        if let Some((offset, epoch)) = self.paused_buffer.end(tp) {
            cursor.fetch_offset = Some(offset);
            cursor.last_epoch = epoch;
            self.paused_buffer.set_version(tp, version);
        }
    }

    /// Parks an error of paused partitions; returns the remainder, which concerns others.
    fn park_failed(&mut self, Failed { partitions, error }: Failed) -> Failed {
        let mut others = Vec::with_capacity(partitions.len());
        for (tp, version) in partitions {
            if self.at_version(&tp, version).is_some_and(|cursor| cursor.paused) {
                let failed = Failed { partitions: vec![(tp.clone(), version)], error: error.clone() };
                self.paused_buffer.push(&tp, Item::Failed(failed));
            } else {
                others.push((tp, version));
            }
        }
        Failed { partitions: others, error }
    }

    /// Returns the error if it still concerns an assigned partition. Such partitions are fetched again from their
    /// positions, unless they seek past it.
    pub(super) fn take_failed(&mut self, Failed { partitions, error }: Failed) -> Option<Error> {
        let partitions: Vec<_> = partitions.into_iter().filter(|(tp, version)| self.rewind(tp, *version)).collect();
        match partitions.len() {
            0 => None,
            1 => Some(error),
            _ => Some(error.context(format!("reading {}", join_limited(partitions.iter().map(|(tp, _)| tp))))),
        }
    }

    /// Records that the application has finished the rows returned so far.
    pub(super) fn finish(&mut self) {
        self.last_delivered.clear();
        self.polls += 1;
    }

    /// Returns true if a poll waits or has begun since there were `polls`. Otherwise the next poll notifies the fetch
    /// tasks.
    pub(super) fn is_polled_since(&mut self, polls: u64) -> bool {
        let polled = self.closed || self.waiting > 0 || self.polls != polls;
        self.awaits_poll |= !polled;
        polled
    }

    /// Returns true if fetch tasks must be notified of a poll, and clears the request.
    pub(super) fn take_awaits_poll(&mut self) -> bool {
        std::mem::take(&mut self.changing) | std::mem::take(&mut self.awaits_poll)
    }

    /// Returns position and epoch without the rows of the last poll.
    pub(super) fn finished(&self, tp: &TopicPartition, cursor: &Cursor) -> (Option<i64>, i32) {
        self.last_delivered.get(tp).copied().unwrap_or((cursor.position, cursor.position_epoch))
    }

    // ---- calls of the application ----

    /// Replaces the assignment; partitions that stay assigned are unchanged.
    pub(super) fn assign(&mut self, partitions: &[TopicPartition]) {
        let requested: HashSet<&TopicPartition> = partitions.iter().collect();
        let removed: Vec<_> = self.cursors.keys().filter(|tp| !requested.contains(tp)).cloned().collect();
        for tp in removed {
            if let Some(cursor) = self.cursors.remove(&tp).filter(|cursor| !cursor.topic_id.is_zero()) {
                self.topic_ids.insert(tp.clone(), cursor.topic_id);
            }
            self.paused_buffer.take(&tp);
            self.last_delivered.remove(&tp);
        }
        for tp in partitions {
            if !self.cursors.contains_key(tp) {
                let mut cursor = Cursor::new(self.next_version());
                cursor.topic_id = self.topic_ids.remove(tp).unwrap_or(Uuid::ZERO);
                self.cursors.insert(tp.clone(), cursor);
            }
        }
    }

    /// Continues at `offset` and invalidates fetched records. Without an offset, the start offset is looked up.
    pub(super) fn seek(&mut self, tp: &TopicPartition, offset: Option<i64>, epoch: Option<i32>) {
        let version = self.next_version();
        if let Some(cursor) = self.cursors.get_mut(tp) {
            cursor.seek(offset, epoch.unwrap_or(-1), version);
            self.end_reached |= cursor.is_at_end();
        }
        self.forget_rows(tp);
    }

    /// Drops parked rows, and the positions before the last poll.
    pub(super) fn forget_rows(&mut self, tp: &TopicPartition) {
        self.paused_buffer.take(tp);
        self.last_delivered.remove(tp);
    }

    /// Stops returning rows of a partition, or resumes with the parked ones.
    pub(super) fn set_paused(&mut self, tp: &TopicPartition, paused: bool) {
        if let Some(cursor) = self.cursors.get_mut(tp) {
            cursor.paused = paused;
            cursor.ends = None;
        }
        if !paused {
            self.release(tp);
        }
    }

    /// Limits a partition to rows below `until`, or removes the limit. Rows past the end are parked.
    pub(super) fn read_until(&mut self, tp: &TopicPartition, until: Option<i64>) {
        if let Some(cursor) = self.cursors.get_mut(tp) {
            cursor.until = until;
            self.end_reached |= cursor.is_at_end();
        }
        self.release(tp);
    }

    /// Returns the parked rows of a partition to the front of the queue.
    fn release(&mut self, tp: &TopicPartition) {
        for item in self.paused_buffer.take(tp).into_iter().rev() {
            self.queued += item.bytes();
            self.queue.push_front(item);
        }
    }

    /// Clears the state for a closed consumer.
    pub(super) fn close(&mut self) {
        let meters = std::mem::take(&mut self.meters);
        let (memory, reserved, waiting) = (self.memory, self.reserved, self.waiting);
        *self = Self { closed: true, memory, reserved, waiting, meters, ..Self::default() };
    }

    // ---- fetch tasks ----

    /// Fetches again from the position; returns false if the cursor has moved.
    fn rewind(&mut self, tp: &TopicPartition, version: u64) -> bool {
        let new_version = self.next_version();
        let Some(cursor) = self.at_version(tp, version) else { return false };
        cursor.rewind(new_version);
        self.paused_buffer.take(tp);
        true
    }

    /// Fetches partitions again, because the task that decoded their records has failed.
    pub(super) fn refetch(&mut self, partitions: &[(TopicPartition, u64)]) {
        for (tp, version) in partitions {
            self.rewind(tp, *version);
        }
    }

    /// Fetches partitions again whose records the failed task of `node` had not queued.
    pub(super) fn recover(&mut self, node: i32) {
        let undecoded = self.cursors.iter().filter(|(_, c)| c.undecoded.0 > 0 && c.undecoded.1 == node);
        let lost: Vec<_> = undecoded.map(|(tp, cursor)| (tp.clone(), cursor.version)).collect();
        self.refetch(&lost);
    }

    /// Queues an error of a partition, which stops until the error was raised.
    pub(super) fn raise(&mut self, tp: &TopicPartition, version: u64, error: Error) {
        let Some(cursor) = self.at_version(tp, version) else { return };
        cursor.failed = true;
        cursor.failing = None;
        // The delay applies regardless of the polls in between.
        cursor.retry_at = Some(Instant::now() + cursor.next_raise());
        let partition = (tp.clone(), version);
        match self.queue.back_mut() {
            Some(Item::Failed(failed)) if failed.has_cause_of(&error) => failed.partitions.push(partition),
            _ => self.queue.push_back(Item::Failed(Failed { partitions: vec![partition], error })),
        }
    }

    /// Continues a partition at `offset`, immediately or after the rows already queued. Returns the previous offset if
    /// it was out of range.
    pub(super) fn set_start(&mut self, tp: &TopicPartition, version: u64, offset: i64, epoch: i32) -> Option<i64> {
        let cursor = self.at_version(tp, version)?;
        let out_of_range = cursor.out_of_range.take();
        cursor.fetch_offset = Some(offset);
        cursor.last_epoch = epoch;
        if cursor.position.is_none() {
            cursor.position = Some(offset);
            cursor.position_epoch = epoch;
            cursor.rowless_from = Some(offset);
            self.end_reached |= cursor.is_at_end();
        } else {
            let epochs = Epochs::new(epoch, &[]);
            let segment = Segment { tp: tp.clone(), version, rows: 0, next_offset: offset, epochs };
            let batch = RecordBatch::new_empty(Arc::new(Schema::empty()));
            self.queue.push_back(Item::Chunk(Chunk { batch, segments: vec![segment], bytes: 0 }));
        }
        out_of_range
    }

    /// Records that no broker responded to a lookup of a start offset.
    pub(super) fn record_unanswered(&mut self, tp: &TopicPartition, version: u64, error: Error) {
        if let Some(cursor) = self.at_version(tp, version) {
            cursor.record_failure(error, Instant::now());
        }
    }

    /// Returns the partitions without a response for longer than `patience`; each is returned once.
    pub(super) fn unreachable(
        &mut self,
        requests: &[FetchPartitionRequest],
        patience: Duration,
    ) -> Vec<TopicPartition> {
        let now = Instant::now();
        let mut unreachable = Vec::new();
        for request in requests {
            let Some(cursor) = self.at_version(&request.tp, request.version) else { continue };
            if let Some(failing) = &mut cursor.failing
                && failing.error.unanswered()
                && !failing.logged
                && now - failing.since > patience
            {
                failing.logged = true;
                unreachable.push(request.tp.clone());
            }
        }
        unreachable
    }

    /// Records errors of partitions that may be temporary, and raises those that last longer than `patience`. All in
    /// one step, so that each cause is raised once.
    pub(super) fn partitions_failed(&mut self, failed: Vec<(&FetchPartitionRequest, Error)>, patience: Duration) {
        let now = Instant::now();
        for (request, error) in failed {
            // Java's client also treats this error as temporary.
            let is_retriable = error.retriable() || error.code() == Some(ErrorCode::UNKNOWN_SERVER_ERROR.code());
            self.failed(request, error, patience, now, !is_retriable);
        }
    }

    /// Like `partitions_failed` for one partition; the error is raised only if it lasts.
    pub(super) fn partition_no_progress(&mut self, request: &FetchPartitionRequest, error: Error, patience: Duration) {
        self.failed(request, error, patience, Instant::now(), false);
    }

    /// Like `partitions_failed` for a whole request; if one partition exceeds `patience`, all raise.
    pub(super) fn request_failed(&mut self, requests: &[FetchPartitionRequest], error: &Error, patience: Duration) {
        let now = Instant::now();
        let is_lasting = |cursor: &Cursor| {
            let same_kind = cursor.failing.as_ref().filter(|failing| failing.error.unanswered() == error.unanswered());
            same_kind.is_some_and(|failing| now - failing.since > patience)
        };
        let any_lasting = requests
            .iter()
            .any(|request| self.at_version(&request.tp, request.version).is_some_and(|cursor| is_lasting(cursor)));
        let patience = if any_lasting { Duration::ZERO } else { patience };
        let error_of = |request: &FetchPartitionRequest| {
            error.clone().context(format!("Fetch of {} at offset {}", request.tp, request.offset))
        };
        self.partitions_failed(requests.iter().map(|request| (request, error_of(request))).collect(), patience);
    }

    fn failed(&mut self, request: &FetchPartitionRequest, error: Error, patience: Duration, now: Instant, raise: bool) {
        let Some(cursor) = self.at_version(&request.tp, request.version) else { return };
        // Return to the leader, which has the authoritative log.
        cursor.replica = None;
        cursor.ends = None;
        let since = cursor.record_failure(error.clone(), now);
        cursor.retry_at = Some(now + RETRY_DELAY);
        // Missing responses are not raised, like in Java's client.
        if raise || !error.unanswered() && (patience.is_zero() || now - since > patience) {
            self.raise(&request.tp, request.version, error);
        }
    }
}

/// Records the age of each returned row.
fn age_rows(meters: &mut ReadMeters, rows: &RecordBatch) {
    let column = rows.column_by_name("timestamp");
    let Some(stamps) = column.and_then(|column| column.as_any().downcast_ref::<TimestampMillisecondArray>()) else {
        return;
    };
    let now_ms = now_ms();
    stamps.iter().flatten().for_each(|stamp| meters.row_age(now_ms, stamp, 1));
}
