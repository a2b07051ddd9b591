//! State of a consumer: its partitions, positions and queue. Fetch tasks and the application's calls change it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, RecordBatch, TimestampMillisecondArray};
use arrow_schema::Schema;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;
use tokio::time::Instant;

use super::cursor::{Cursor, Start};
use super::decode_slots::DecodeSlots;
use super::old_topics::OldTopics;
use super::partition_request::FetchPartitionRequest;
use super::paused_buffer::PausedBuffer;
use super::queue::{Chunk, Epochs, Failed, Fate, Item, Segment, offset_at, take};
use super::rows::{NextOffset, Rows};
use crate::clock::now_ms;
use crate::collections::{HashMap, HashSet};
use crate::error::{Error, Result};
use crate::metrics::ReadMeters;
use crate::types::{TopicPartition, join_limited};

/// Delay before a partition is fetched again after an error.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(100);

/// State of a consumer. It is guarded by one lock, which is held only briefly and never across an await.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) cursors: BTreeMap<TopicPartition, Cursor>,
    pub(super) queue: VecDeque<Item>,
    /// Slots of the queue whose records are not decoded yet.
    pub(super) decode_slots: DecodeSlots,
    /// Rows of paused partitions.
    pub(super) paused_buffer: PausedBuffer,
    /// Maximum size of the queue, in bytes.
    pub(super) memory: usize,
    /// Size of the chunks in the queue and of the records that wait in slots, in bytes.
    pub(super) queued: usize,
    /// Maximum size of the responses in flight, in bytes.
    pub(super) reserved: usize,
    /// Number of brokers that shared the memory when the last round was planned.
    pub(super) fetching_brokers: usize,
    /// Smallest capacity in bytes that a fetch task waits for; 0 if any poll should wake it.
    pub(super) wanted_capacity: Option<usize>,
    /// Time of the last Fetch response of each broker.
    pub(super) last_response: HashMap<i32, Instant>,
    pub(super) closed: bool,
    /// True if the application has changed the assignment or a position since the last poll. Fetching is delayed until
    /// the next poll, because a request for only the first of the partitions would make the others wait for its
    /// response, which may take `fetch.max.wait.ms`.
    pub(super) changing: bool,
    /// Number of polls.
    pub(super) polls: u64,
    /// True if a fetch task waits for the next poll before it sends a request.
    awaits_poll: bool,
    /// Number of polls that currently wait for rows. While a poll waits, a seek takes effect immediately instead of
    /// with the next poll.
    pub(super) waiting: usize,
    /// True if a fetch is delayed until another broker's records of the partition are decoded, because the new records
    /// must not overtake them.
    pub(super) blocked_on_decode: bool,
    /// Position and leader epoch of each partition before the rows of the last poll. The application may still be
    /// processing these rows.
    last_delivered: HashMap<TopicPartition, (Option<i64>, i32)>,
    /// True if a position has reached the end of a bounded read since a poll last returned.
    end_reached: bool,
    versions: u64,
    pub(super) old_topics: OldTopics,
    /// Topic ids of formerly assigned partitions. If the topic has another id when the partition is assigned again, the
    /// group's offsets may still belong to the deleted topic, because brokers remove them only some time after the new
    /// topic is created.
    topic_ids: HashMap<TopicPartition, Uuid>,
    pub(super) meters: ReadMeters,
}

impl State {
    /// Creates the state. `memory` is the maximum size of the queue in bytes.
    pub(super) fn new(memory: usize) -> Self {
        Self { memory, ..Self::default() }
    }

    pub(super) fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    /// Returns the cursor of a partition if the cursor still has this version.
    pub(super) fn at_version(&mut self, tp: &TopicPartition, version: u64) -> Option<&mut Cursor> {
        self.cursors.get_mut(tp).filter(|cursor| cursor.version == version)
    }

    // ---- polls ----

    /// Returns true if [`next`](Self::next) would return something or take an item from the queue.
    pub(super) fn has_next(&self) -> bool {
        self.end_reached || self.queue.front().is_some_and(|item| !matches!(item, Item::Slot(_)))
    }

    /// Returns the next rows or error, if any, and moves positions past the rows. The result contains no rows if only
    /// the end of a bounded read was reached.
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

    /// Takes the rows of a chunk that may be returned now, and stores the position after the rows of each partition in
    /// `next`.
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
            // `at_version` would borrow all of `self`, so the lookup is repeated here.
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

    /// Parks rows of a paused partition. If parked rows already take half of the memory, drops the rows, so that they
    /// are fetched again later.
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

    /// Parks an error of paused partitions. Returns the error with the remaining partitions.
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

    /// Returns the error if it still concerns assigned partitions. They are fetched again from their positions, unless
    /// the application seeks past the error.
    pub(super) fn take_failed(&mut self, Failed { partitions, error }: Failed) -> Option<Error> {
        let partitions: Vec<_> = partitions.into_iter().filter(|(tp, version)| self.rewind(tp, *version)).collect();
        match partitions.len() {
            0 => None,
            1 => Some(error),
            _ => Some(error.context(format!("reading {}", join_limited(partitions.iter().map(|(tp, _)| tp))))),
        }
    }

    /// Records that the application has processed the rows returned so far.
    pub(super) fn finish(&mut self) {
        self.last_delivered.clear();
        self.polls += 1;
    }

    /// Returns true if a poll waits, or if one has begun since the number of polls was `polls`. Otherwise, requests
    /// that the next poll notifies the fetch tasks.
    pub(super) fn is_polled_since(&mut self, polls: u64) -> bool {
        let polled = self.closed || self.waiting > 0 || self.polls != polls;
        self.awaits_poll |= !polled;
        polled
    }

    /// Returns true if the poll must notify the fetch tasks, and clears this request.
    pub(super) fn take_awaits_poll(&mut self) -> bool {
        std::mem::take(&mut self.changing) | std::mem::take(&mut self.awaits_poll)
    }

    /// Returns the position and leader epoch before the rows of the last poll.
    pub(super) fn finished(&self, tp: &TopicPartition, cursor: &Cursor) -> (Option<i64>, i32) {
        self.last_delivered.get(tp).copied().unwrap_or((cursor.position, cursor.position_epoch))
    }

    // ---- calls of the application ----

    /// Replaces the assignment. Partitions that stay assigned keep their state.
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

    /// Moves the position to `offset` and invalidates fetched records. Without an offset, the start offset is looked
    /// up.
    pub(super) fn seek(&mut self, tp: &TopicPartition, offset: Option<i64>, epoch: Option<i32>) {
        let version = self.next_version();
        if let Some(cursor) = self.cursors.get_mut(tp) {
            cursor.seek(offset, epoch.unwrap_or(-1), version);
            self.end_reached |= cursor.is_at_end();
        }
        self.forget_rows(tp);
    }

    /// Looks up the start offset of a bounded partition again, because its position is past the end of the log, and
    /// limits the partition to rows below `end`.
    pub(super) fn reset_past_end(&mut self, tp: &TopicPartition, position: i64, end: i64) {
        if self.cursors.get(tp).is_none_or(|cursor| cursor.position != Some(position) || cursor.until.is_none()) {
            return;
        }
        self.seek(tp, None, None);
        if let Some(cursor) = self.cursors.get_mut(tp) {
            cursor.start = Start::Reset;
            // Reported together with the new offset.
            cursor.out_of_range = Some(position);
            cursor.until = Some(end);
        }
    }

    /// Drops the parked rows of a partition, and the record of its position before the last poll.
    pub(super) fn forget_rows(&mut self, tp: &TopicPartition) {
        self.paused_buffer.take(tp);
        self.last_delivered.remove(tp);
    }

    /// Pauses a partition, or resumes it with its parked rows first.
    pub(super) fn set_paused(&mut self, tp: &TopicPartition, paused: bool) {
        if let Some(cursor) = self.cursors.get_mut(tp) {
            cursor.paused = paused;
            cursor.ends = None;
            // The time of a pause does not count as time in which the partition fails (`default.api.timeout.ms`).
            cursor.failing = None;
        }
        if !paused {
            self.release(tp);
        }
    }

    /// Limits a partition to rows below `until`, or removes the limit. Rows from `until` on are parked.
    pub(super) fn read_until(&mut self, tp: &TopicPartition, until: Option<i64>) {
        if let Some(cursor) = self.cursors.get_mut(tp) {
            cursor.until = until;
            self.end_reached |= cursor.is_at_end();
        }
        self.release(tp);
    }

    /// Moves the parked rows of a partition to the front of the queue.
    fn release(&mut self, tp: &TopicPartition) {
        for item in self.paused_buffer.take(tp).into_iter().rev() {
            self.queued += item.bytes();
            self.queue.push_front(item);
        }
    }

    /// Clears the state of a closed consumer.
    pub(super) fn close(&mut self) {
        let meters = std::mem::take(&mut self.meters);
        let (memory, reserved, waiting) = (self.memory, self.reserved, self.waiting);
        *self = Self { closed: true, memory, reserved, waiting, meters, ..Self::default() };
    }

    // ---- fetch tasks ----

    /// Rewinds a partition, so that it is fetched again from its position. Returns false if the cursor has moved.
    fn rewind(&mut self, tp: &TopicPartition, version: u64) -> bool {
        let new_version = self.next_version();
        let Some(cursor) = self.at_version(tp, version) else { return false };
        cursor.rewind(new_version);
        self.paused_buffer.take(tp);
        true
    }

    /// Rewinds partitions, because the task that decoded their records has failed.
    pub(super) fn refetch(&mut self, partitions: &[(TopicPartition, u64)]) {
        for (tp, version) in partitions {
            self.rewind(tp, *version);
        }
    }

    /// Rewinds partitions whose records the failed task of `node` had received but not queued.
    pub(super) fn recover(&mut self, node: i32) {
        let undecoded = self.cursors.iter().filter(|(_, c)| c.undecoded.0 > 0 && c.undecoded.1 == node);
        let lost: Vec<_> = undecoded.map(|(tp, cursor)| (tp.clone(), cursor.version)).collect();
        self.refetch(&lost);
    }

    /// Queues an error of a partition. The partition is not fetched until a poll has raised the error.
    pub(super) fn raise(&mut self, tp: &TopicPartition, version: u64, error: Error) {
        let Some(cursor) = self.at_version(tp, version) else { return };
        cursor.failed = true;
        cursor.failing = None;
        // The delay does not depend on how soon a poll raises the error.
        cursor.retry_at = Some(Instant::now() + cursor.next_raise());
        let partition = (tp.clone(), version);
        match self.queue.back_mut() {
            Some(Item::Failed(failed)) if failed.has_cause_of(&error) => failed.partitions.push(partition),
            _ => self.queue.push_back(Item::Failed(Failed { partitions: vec![partition], error })),
        }
    }

    /// Continues a partition at `offset`: immediately if it has no position yet, otherwise after the rows already
    /// queued. Returns the previous offset if it was out of range.
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

    /// Records that no broker responded to the lookup of a start offset.
    pub(super) fn record_unanswered(&mut self, tp: &TopicPartition, version: u64, error: Error) {
        if let Some(cursor) = self.at_version(tp, version) {
            cursor.record_failure(error, Instant::now());
        }
    }

    /// Returns the partitions that have had no response for longer than `patience`. Each is returned only once.
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

    /// Records errors of partitions, and raises those that are not temporary or have lasted longer than `patience`. All
    /// errors are recorded in one step, so that each cause is raised once.
    pub(super) fn partitions_failed(&mut self, failed: Vec<(&FetchPartitionRequest, Error)>, patience: Duration) {
        let now = Instant::now();
        for (request, error) in failed {
            // Java's client also treats this error as temporary.
            let is_retriable = error.retriable() || error.code() == Some(ErrorCode::UNKNOWN_SERVER_ERROR.code());
            self.failed(request, error, patience, now, !is_retriable);
        }
    }

    /// Like `partitions_failed`, but for one partition whose error is always treated as temporary.
    pub(super) fn partition_no_progress(&mut self, request: &FetchPartitionRequest, error: Error, patience: Duration) {
        self.failed(request, error, patience, Instant::now(), false);
    }

    /// Like `partitions_failed`, but for a whole request. If the error has lasted too long for one partition, it is
    /// raised for all.
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
        // The partition returns to the leader, which has the authoritative log.
        cursor.replica = None;
        cursor.ends = None;
        let since = cursor.record_failure(error.clone(), now);
        cursor.retry_at = Some(now + RETRY_DELAY);
        // Like in Java's client, missing responses are not raised.
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
