//! Partitions, positions and the queue: what fetching tasks and the user's calls change in one step each.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Array, RecordBatch, TimestampMillisecondArray};
use arrow_schema::Schema;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;

use super::cursor::Cursor;
use super::decode_slots::Places;
use super::old_topics::OldTopics;
use super::partition_request::Asked;
use super::paused_buffer::Withheld;
use super::queue::{Chunk, Epochs, Failed, Fate, Item, Segment, offset_at, take};
use super::rows::{NextOffset, Rows};
use crate::clock::now_ms;
use crate::error::{Error, Result};
use crate::metrics::ReadMeters;
use crate::types::{TopicPartition, join_limited};

/// Delay before a partition is fetched again after an error.
pub(super) const RETRY: Duration = Duration::from_millis(100);

/// Behind one short lock that is never held across an await.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) cursors: BTreeMap<TopicPartition, Cursor>,
    pub(super) queue: VecDeque<Item>,
    /// Places in the queue for what is not decoded yet.
    pub(super) places: Places,
    /// Rows of paused partitions.
    pub(super) withheld: Withheld,
    /// The most that may be queued.
    pub(super) memory: usize,
    /// Bytes of the chunks in the queue, and of what waits to be decoded in its place there.
    pub(super) queued: usize,
    /// Bytes that requests under way may still bring.
    pub(super) reserved: usize,
    /// Brokers that share the memory, when a round was last planned.
    pub(super) sharers: usize,
    /// Capacity that idle brokers wait for; 0 if another reason has ended with a poll.
    pub(super) idle: Option<usize>,
    /// Time of the last Fetch response of each broker.
    pub(super) answered: HashMap<i32, Instant>,
    pub(super) closed: bool,
    /// The program assigns and seeks, and has not polled since: to ask for the first partition alone would keep the others
    /// waiting for the answer, which may take `fetch.max.wait.ms`.
    pub(super) changing: bool,
    /// Polls that were begun.
    pub(super) polls: u64,
    /// A broker is sent no request until the next poll.
    awaits_poll: bool,
    /// Polls that wait for rows: a seek beside them is read without another poll.
    pub(super) waiting: usize,
    /// A broker waits for another's answer to be decoded, so that it does not overtake it.
    pub(super) overtaking: bool,
    /// Position and epoch before the rows of the last poll, which the application may not have finished.
    given: HashMap<TopicPartition, (Option<i64>, i32)>,
    /// A position has reached the end of a bounded read since the last poll returned.
    end_reached: bool,
    versions: u64,
    pub(super) old_topics: OldTopics,
    /// Topic ids of partitions that were assigned before. Where one comes back with another id, the group's offsets may
    /// still be those of the deleted topic: brokers remove them later than they create the new one.
    topic_ids: HashMap<TopicPartition, Uuid>,
    pub(super) meters: ReadMeters,
}

impl State {
    /// `memory` is the most that may be queued.
    pub(super) fn new(memory: usize) -> Self {
        Self { memory, ..Self::default() }
    }

    pub(super) fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    /// The cursor, if it is still at `version`.
    pub(super) fn at_version(&mut self, tp: &TopicPartition, version: u64) -> Option<&mut Cursor> {
        self.cursors.get_mut(tp).filter(|cursor| cursor.version == version)
    }

    // ---- what polls take ----

    /// Returns true if [`next`](Self::next) would return or keep something.
    pub(super) fn has_next(&self) -> bool {
        self.end_reached || self.queue.front().is_some_and(|item| !matches!(item, Item::Kept(_)))
    }

    /// The next rows or the next error, if there are any. Positions move past the rows that are returned. Without rows if
    /// the end of a bounded read was reached without any.
    pub(super) fn next(&mut self, limit: usize) -> Option<Result<Rows>> {
        loop {
            match self.queue.pop_front() {
                None => return std::mem::take(&mut self.end_reached).then(|| Ok(Rows::default())),
                Some(kept @ Item::Kept(_)) => {
                    self.queue.push_front(kept);
                    return std::mem::take(&mut self.end_reached).then(|| Ok(Rows::default()));
                }
                Some(item) => {
                    if let Some(found) = self.take_item(item, limit) {
                        return Some(found);
                    }
                }
            }
        }
    }

    fn take_item(&mut self, item: Item, limit: usize) -> Option<Result<Rows>> {
        match item {
            Item::Kept(_) => None,
            Item::Error(error) => Some(Err(error)),
            Item::Failed(failed) => {
                let failed = self.hold_failed(failed);
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

    /// Takes the rows of a chunk that may be returned now, and records in `next` the positions after them.
    fn take_rows(
        &mut self,
        chunk: Chunk,
        limit: usize,
        next: &mut BTreeMap<TopicPartition, NextOffset>,
    ) -> Option<RecordBatch> {
        self.queued = self.queued.saturating_sub(chunk.bytes);
        let cursors = &self.cursors;
        let fate = |segment: &Segment| match cursors.get(&segment.tp).filter(|c| c.version == segment.version) {
            Some(cursor) if cursor.paused || cursor.is_at_end() => Fate::Hold,
            Some(_) => Fate::Give,
            None => Fate::Void,
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
            // Not `at_version`: the borrow would be of all of self.
            let found = self.cursors.get_mut(&segment.tp).filter(|c| c.version == segment.version);
            if let Some(cursor) = found {
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
                self.given.entry(segment.tp).or_insert(before);
            }
        }
        if let Some(rest) = taken.rest {
            self.queued += rest.bytes;
            self.queue.push_front(Item::Chunk(rest));
        }
        if let Some((tp, chunk)) = taken.held {
            self.hold(&tp, chunk);
        }
        (taken.rows.num_rows() > 0).then_some(taken.rows)
    }

    /// Keeps rows of a paused partition, or lets them be fetched again later if those kept take half of the memory.
    fn hold(&mut self, tp: &TopicPartition, chunk: Chunk) {
        if self.withheld.bytes() + chunk.bytes <= self.memory / 2 {
            return self.withheld.push(tp, Item::Chunk(chunk));
        }
        let again = self.next_version();
        let Some(cursor) = self.cursors.get_mut(tp) else { return };
        cursor.rewind(again);
        if let Some((offset, epoch)) = self.withheld.end(tp) {
            cursor.fetch_offset = Some(offset);
            cursor.last_epoch = epoch;
            self.withheld.renew(tp, again);
        }
    }

    /// Keeps an error for paused partitions; returns the remainder, which concerns others.
    fn hold_failed(&mut self, Failed { partitions, error }: Failed) -> Failed {
        let mut others = Vec::with_capacity(partitions.len());
        for (tp, version) in partitions {
            if self.at_version(&tp, version).is_some_and(|cursor| cursor.paused) {
                let failed = Failed { partitions: vec![(tp.clone(), version)], error: error.clone() };
                self.withheld.push(&tp, Item::Failed(failed));
            } else {
                others.push((tp, version));
            }
        }
        Failed { partitions: others, error }
    }

    /// Returns the error, if it still concerns an assigned partition. Such partitions are fetched again from their
    /// positions, unless they seek past it.
    pub(super) fn take_failed(&mut self, Failed { partitions, error }: Failed) -> Option<Error> {
        let of: Vec<_> = partitions.into_iter().filter(|(tp, version)| self.rewind(tp, *version)).collect();
        match of.len() {
            0 => None,
            1 => Some(error),
            _ => Some(error.context(format!("reading {}", join_limited(of.iter().map(|(tp, _)| tp))))),
        }
    }

    /// Registers that the application has finished the rows returned so far.
    pub(super) fn finish(&mut self) {
        self.given.clear();
        self.polls += 1;
    }

    /// Returns whether a poll waits, or was begun since there were `polls`; else the next one notifies the tasks that fetch.
    pub(super) fn is_polled_since(&mut self, polls: u64) -> bool {
        let polled = self.closed || self.waiting > 0 || self.polls != polls;
        self.awaits_poll |= !polled;
        polled
    }

    /// Returns whether a task that fetches has to be notified of a poll.
    pub(super) fn take_awaits_poll(&mut self) -> bool {
        std::mem::take(&mut self.changing) | std::mem::take(&mut self.awaits_poll)
    }

    /// Position and epoch without what the last poll gave.
    pub(super) fn finished(&self, tp: &TopicPartition, cursor: &Cursor) -> (Option<i64>, i32) {
        self.given.get(tp).copied().unwrap_or((cursor.position, cursor.position_epoch))
    }

    // ---- what the user changes ----

    /// Assigns exactly these; those that were assigned before stay as they are.
    pub(super) fn assign(&mut self, partitions: &[TopicPartition]) {
        let wanted: HashSet<&TopicPartition> = partitions.iter().collect();
        let gone: Vec<_> = self.cursors.keys().filter(|tp| !wanted.contains(tp)).cloned().collect();
        for tp in gone {
            if let Some(cursor) = self.cursors.remove(&tp).filter(|cursor| !cursor.topic_id.is_zero()) {
                self.topic_ids.insert(tp.clone(), cursor.topic_id);
            }
            self.withheld.take(&tp);
            self.given.remove(&tp);
        }
        for tp in partitions {
            if !self.cursors.contains_key(tp) {
                let mut cursor = Cursor::new(self.next_version());
                cursor.topic_id = self.topic_ids.remove(tp).unwrap_or(Uuid::ZERO);
                self.cursors.insert(tp.clone(), cursor);
            }
        }
    }

    /// Continues at `offset` and invalidates fetched records; without an offset, at the start that is found.
    pub(super) fn seek(&mut self, tp: &TopicPartition, offset: Option<i64>, epoch: Option<i32>) {
        let version = self.next_version();
        if let Some(cursor) = self.cursors.get_mut(tp) {
            cursor.seek(offset, epoch.unwrap_or(-1), version);
            self.end_reached |= cursor.is_at_end();
        }
        self.forget_rows(tp);
    }

    /// Drops rows that are withheld, and what was finished before the last poll.
    pub(super) fn forget_rows(&mut self, tp: &TopicPartition) {
        self.withheld.take(tp);
        self.given.remove(tp);
    }

    /// Gives no more rows of a partition, or those first that were withheld.
    pub(super) fn set_paused(&mut self, tp: &TopicPartition, paused: bool) {
        if let Some(cursor) = self.cursors.get_mut(tp) {
            cursor.paused = paused;
            cursor.ends = None;
        }
        if !paused {
            self.release(tp);
        }
    }

    /// Returns rows of a partition up to `until` only, or without an end; rows past it are kept.
    pub(super) fn read_until(&mut self, tp: &TopicPartition, until: Option<i64>) {
        if let Some(cursor) = self.cursors.get_mut(tp) {
            cursor.until = until;
            self.end_reached |= cursor.is_at_end();
        }
        self.release(tp);
    }

    /// Puts withheld rows of a partition back at the front of the queue.
    fn release(&mut self, tp: &TopicPartition) {
        for item in self.withheld.take(tp).into_iter().rev() {
            self.queued += item.bytes();
            self.queue.push_front(item);
        }
    }

    /// Ends everything.
    pub(super) fn close(&mut self) {
        let meters = std::mem::take(&mut self.meters);
        let (memory, reserved, waiting) = (self.memory, self.reserved, self.waiting);
        *self = Self { closed: true, memory, reserved, waiting, meters, ..Self::default() };
    }

    // ---- what fetching tasks change ----

    /// Fetches again from the position; returns false if the cursor has moved since.
    fn rewind(&mut self, tp: &TopicPartition, version: u64) -> bool {
        let again = self.next_version();
        let Some(cursor) = self.at_version(tp, version) else { return false };
        cursor.rewind(again);
        self.withheld.take(tp);
        true
    }

    /// The task that decoded these parts of answers has failed: they are fetched again.
    pub(super) fn lost(&mut self, partitions: &[(TopicPartition, u64)]) {
        for (tp, version) in partitions {
            self.rewind(tp, *version);
        }
    }

    /// The task that read from `node` has failed: what it had and did not put into the queue is fetched again.
    pub(super) fn recover(&mut self, node: i32) {
        let undecoded = self.cursors.iter().filter(|(_, c)| c.undecoded.0 > 0 && c.undecoded.1 == node);
        let lost: Vec<_> = undecoded.map(|(tp, cursor)| (tp.clone(), cursor.version)).collect();
        self.lost(&lost);
    }

    /// The partition stops until the error was raised.
    pub(super) fn raise(&mut self, tp: &TopicPartition, version: u64, error: Error) {
        let Some(cursor) = self.at_version(tp, version) else { return };
        cursor.failed = true;
        cursor.failing = None;
        // Applies however often the application polls.
        cursor.retry_at = Some(Instant::now() + cursor.next_raise());
        let one = (tp.clone(), version);
        match self.queue.back_mut() {
            Some(Item::Failed(failed)) if failed.has_cause_of(&error) => failed.partitions.push(one),
            _ => self.queue.push_back(Item::Failed(Failed { partitions: vec![one], error })),
        }
    }

    /// Continues a partition at `offset`: at once, or behind what is queued already. Returns the offset before, if it was
    /// not in the log.
    pub(super) fn place(&mut self, tp: &TopicPartition, version: u64, offset: i64, epoch: i32) -> Option<i64> {
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

    /// Records that no broker returned a start offset of a partition.
    pub(super) fn unanswered(&mut self, tp: &TopicPartition, version: u64, error: Error) {
        if let Some(cursor) = self.at_version(tp, version) {
            cursor.fails(error, Instant::now());
        }
    }

    /// Returns those partitions that had no response for longer than `patience`; each is reported once.
    pub(super) fn unheard_of(&mut self, asked: &[Asked], patience: Duration) -> Vec<TopicPartition> {
        let now = Instant::now();
        let mut found = Vec::new();
        for one in asked {
            let Some(cursor) = self.at_version(&one.tp, one.version) else { continue };
            if let Some(failing) = &mut cursor.failing
                && failing.error.unanswered()
                && !failing.logged
                && now - failing.since > patience
            {
                failing.logged = true;
                found.push(one.tp.clone());
            }
        }
        found
    }

    /// Records that the answer for each of these was an error that may heal; raises it when it did not for `patience`.
    /// In one step: what has one cause then is one error.
    pub(super) fn partitions_failed(&mut self, failed: Vec<(&Asked, Error)>, patience: Duration) {
        let now = Instant::now();
        for (asked, error) in failed {
            // Java's client takes this one for a passing trouble of the broker too.
            let passes = error.retriable() || error.code() == Some(ErrorCode::UNKNOWN_SERVER_ERROR.code());
            self.failed(asked, error, patience, now, !passes);
        }
    }

    /// The same for one, whatever the error says of itself: raised only when it lasts.
    pub(super) fn partition_stuck(&mut self, asked: &Asked, error: Error, patience: Duration) {
        self.failed(asked, error, patience, Instant::now(), false);
    }

    /// The same for partitions that failed together: raised for all when it lasted for one.
    pub(super) fn round_failed(&mut self, asked: &[Asked], error: &Error, patience: Duration) {
        let now = Instant::now();
        let last = |cursor: &Cursor| {
            let alike = cursor.failing.as_ref().filter(|failing| failing.error.unanswered() == error.unanswered());
            alike.is_some_and(|failing| now - failing.since > patience)
        };
        let lasts = asked.iter().any(|one| self.at_version(&one.tp, one.version).is_some_and(|cursor| last(cursor)));
        let patience = if lasts { Duration::ZERO } else { patience };
        let of = |one: &Asked| error.clone().context(format!("Fetch of {} at offset {}", one.tp, one.offset));
        self.partitions_failed(asked.iter().map(|one| (one, of(one))).collect(), patience);
    }

    fn failed(&mut self, asked: &Asked, error: Error, patience: Duration, now: Instant, raise: bool) {
        let Some(cursor) = self.at_version(&asked.tp, asked.version) else { return };
        // The leader knows best.
        cursor.replica = None;
        cursor.ends = None;
        let since = cursor.fails(error.clone(), now);
        cursor.retry_at = Some(now + RETRY);
        // Brokers that do not answer are waited for, as Java's client does.
        if raise || !error.unanswered() && (patience.is_zero() || now - since > patience) {
            self.raise(&asked.tp, asked.version, error);
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
