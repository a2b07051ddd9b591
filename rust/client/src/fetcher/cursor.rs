//! State of one assigned partition.

use std::time::Duration;

use samsarrow_wire::messages::Uuid;
use tokio::time::Instant;

use super::state::RETRY_DELAY;
use crate::cluster::metadata::{Leader, Metadata};
use crate::error::Error;
use crate::retry::backoff::Backoff;
use crate::types::TopicPartition;

/// Maximum delay before a partition is fetched again after its error was raised.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Source of a start offset that is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Start {
    /// The group's committed offset, or the offset of `auto.offset.reset` if there is none.
    Committed,
    /// The offset of `auto.offset.reset`, because the previous offset was out of range or the topic was recreated.
    Reset,
}

/// End offsets of a partition, as reported by a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) node: i32,
    pub(super) high_watermark: i64,
    /// Last stable offset: the offset of the first record of an open transaction, or the high watermark if there is
    /// none.
    pub(super) stable: i64,
}

/// Range of a partition's log: its start offset, if known, and the end that the isolation level allows to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) start: Option<i64>,
    pub(super) end: i64,
}

/// Errors of a partition since it last received records.
#[derive(Debug)]
pub(super) struct Failing {
    /// Time of the first error of the same kind as `error`. There are two kinds: error responses and missing responses.
    pub(super) since: Instant,
    /// Last error.
    pub(super) error: Error,
    /// Set once a warning was logged because no broker responds.
    pub(super) logged: bool,
}

/// Fetch state of one assigned partition.
///
/// `position` follows the rows returned to the application; `fetch_offset` is ahead of `position` by the queued
/// records. `version` increases with every seek, pause and new assignment, which invalidates records fetched for an
/// older version.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) version: u64,
    /// Id of the topic that the position belongs to; zero until the first Fetch response, or if the broker does not
    /// support topic ids.
    pub(super) topic_id: Uuid,
    /// Set if the topic was recreated while it was consumed. Rows without a topic id may then come from the old topic.
    pub(super) recreated: bool,
    pub(super) position: Option<i64>,
    pub(super) fetch_offset: Option<i64>,
    /// Leader epoch of the record before `position`, or -1 if unknown (KIP-320); `last_epoch` is the leader epoch of
    /// the record before `fetch_offset`.
    pub(super) position_epoch: i32,
    pub(super) last_epoch: i32,
    /// Leader epoch in which the position was last validated; -1 if it was never validated.
    pub(super) validated_epoch: i32,
    /// Replica to fetch from instead of the leader, and the time until which it is used (KIP-392).
    pub(super) replica: Option<(i32, Instant)>,
    pub(super) start: Start,
    /// Offset that a broker reported as out of range, until the new start offset is known.
    pub(super) out_of_range: Option<i64>,
    /// Number of pieces of Fetch responses that are not queued yet, and the broker that sent them. Records from another
    /// broker must not be queued before them.
    pub(super) undecoded: (usize, i32),
    pub(super) paused: bool,
    /// Set while an error of the partition is queued, until `poll` has raised it.
    pub(super) failed: bool,
    /// Number of errors raised since records were last received.
    raised: u32,
    /// End offset of a bounded read. Seeks do not change it.
    pub(super) until: Option<i64>,
    /// Offset after the last returned row. The offsets from here to `position` have no rows.
    pub(super) rowless_from: Option<i64>,
    /// Offset that was last committed for returned rows.
    pub(super) committed_rows: Option<i64>,
    /// Time before which the partition is not fetched.
    pub(super) retry_at: Option<Instant>,
    pub(super) failing: Option<Failing>,
    /// Last reported ends; `None` after an error or a pause.
    pub(super) ends: Option<Ends>,
    /// Log range in the last successful response, used for metrics.
    pub(super) log: Option<Log>,
    /// Backoff for repeated corrections of the fetch offset; `None` once records are received.
    corrections: Option<Backoff>,
}

impl Cursor {
    pub(super) fn new(version: u64) -> Self {
        let start = Start::Committed;
        Self {
            version,
            topic_id: Uuid::ZERO,
            recreated: false,
            position: None,
            fetch_offset: None,
            position_epoch: -1,
            last_epoch: -1,
            validated_epoch: -1,
            replica: None,
            start,
            out_of_range: None,
            undecoded: (0, -1),
            paused: false,
            failed: false,
            raised: 0,
            until: None,
            rowless_from: None,
            committed_rows: None,
            retry_at: None,
            failing: None,
            ends: None,
            log: None,
            corrections: None,
        }
    }

    /// Moves the position to `offset`, or clears the position if `offset` is `None`. Invalidates fetched records.
    pub(super) fn seek(&mut self, offset: Option<i64>, epoch: i32, version: u64) {
        self.version = version;
        self.position = offset;
        self.rowless_from = offset;
        self.committed_rows = None;
        self.fetch_offset = offset;
        self.position_epoch = epoch;
        self.last_epoch = epoch;
        self.validated_epoch = -1;
        self.start = Start::Committed;
        self.out_of_range = None;
        self.undecoded = (0, -1);
        self.failed = false;
        self.raised = 0;
        self.retry_at = None;
        self.failing = None;
        self.corrections = None;
    }

    /// Returns true if the position belongs to a topic with another id. If either id is unknown, the topics are assumed
    /// to be the same.
    pub(super) fn is_of_another_topic(&self, id: Uuid) -> bool {
        !self.topic_id.is_zero() && !id.is_zero() && self.topic_id != id
    }

    /// Returns true if rows that end before `offset` may come from the old topic, because the new topic has not
    /// returned rows up to this offset.
    pub(super) fn may_be_of_old_topic(&self, offset: i64) -> bool {
        self.recreated && self.position.is_none_or(|position| offset > position)
    }

    /// Clears the position in the old topic. The partition restarts in the recreated topic at the offset that
    /// `auto.offset.reset` selects.
    pub(super) fn restart(&mut self, topic_id: Uuid, version: u64) {
        self.seek(None, -1, version);
        self.start = Start::Reset;
        self.topic_id = topic_id;
        self.recreated = true;
        self.replica = None;
        self.ends = None;
        self.log = None;
    }

    /// Returns true if the position has reached the end of a bounded read.
    pub(super) fn is_at_end(&self) -> bool {
        matches!((self.until, self.position), (Some(until), Some(position)) if position >= until)
    }

    /// Moves the position to `next_offset` after rows were returned. `last_row` is the offset of the last row, or
    /// `None` if there were no rows.
    pub(super) fn advance(&mut self, next_offset: i64, epoch: i32, last_row: Option<i64>) {
        if let Some(last) = last_row {
            self.rowless_from = Some(last + 1);
        } else if self.rowless_from.is_none() {
            self.rowless_from = self.position;
        }
        self.position = Some(next_offset);
        self.position_epoch = epoch;
    }

    /// Returns the position if no row lies between `offset` and the position.
    pub(super) fn past_rowless(&self, offset: i64) -> Option<i64> {
        let position = self.position?;
        (self.rowless_from? <= offset && offset < position).then_some(position)
    }

    /// Records a failed attempt. Returns the time of the first consecutive failure of the same kind.
    pub(super) fn record_failure(&mut self, error: Error, now: Instant) -> Instant {
        let (since, logged) = match self.failing.take() {
            Some(before) if before.error.unanswered() == error.unanswered() => (before.since, before.logged),
            _ => (now, false),
        };
        self.failing = Some(Failing { since, error, logged });
        since
    }

    /// Clears the failures, because records were received.
    pub(super) fn progress(&mut self) {
        self.failing = None;
        self.corrections = None;
        self.raised = 0;
    }

    /// Counts a raised error and returns the delay before the partition is fetched again. The delay grows with each
    /// error, because an application may call `poll` in a loop.
    pub(super) fn next_raise(&mut self) -> Duration {
        self.raised += 1;
        RETRY_DELAY.saturating_mul(1 << (self.raised - 1).min(10)).min(MAX_RETRY_DELAY)
    }

    /// Records that the fetch offset or the broker was corrected. The first correction causes no delay; each further
    /// correction delays the next fetch longer.
    pub(super) fn record_correction(&mut self, backoff: Backoff, now: Instant) {
        match &mut self.corrections {
            None => self.corrections = Some(backoff),
            Some(backoff) => self.retry_at = Some(now + backoff.next_delay()),
        }
    }

    /// Discards fetched records, so that they are fetched again from the unchanged position.
    pub(super) fn rewind(&mut self, version: u64) {
        self.version = version;
        self.undecoded = (0, -1);
        self.failed = false;
        self.fetch_offset = self.position;
        self.last_epoch = self.position_epoch;
        self.validated_epoch = -1;
    }

    /// Returns the broker to fetch from, and the partition's leader.
    pub(super) fn read_from(&self, tp: &TopicPartition, metadata: &Metadata, now: Instant) -> Option<(i32, Leader)> {
        let leader = metadata.leader(&tp.topic, tp.partition)?;
        let replica = self.replica.filter(|(node, until)| *until > now && metadata.brokers.contains_key(node));
        Some((replica.map_or(leader.node, |(node, _)| node), leader))
    }

    /// Returns the offset to fetch from `node`, or `None` if the partition cannot be fetched from it now.
    pub(super) fn fetchable_offset(&self, node: i32, now: Instant) -> Option<i64> {
        let (undecoded, of) = self.undecoded;
        let in_order = undecoded == 0 || of == node;
        let ready = !self.paused && !self.failed && in_order && self.retry_at.is_none_or(|at| at <= now);
        self.fetch_offset.filter(|at| ready && self.until.is_none_or(|until| *at < until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetching_waits_for_undecoded_records_of_another_broker() {
        let now = Instant::now();
        let mut cursor = Cursor::new(1);
        cursor.seek(Some(5), -1, 2);
        cursor.undecoded = (1, 3);
        assert_eq!((cursor.fetchable_offset(3, now), cursor.fetchable_offset(4, now)), (Some(5), None));
        cursor.undecoded.0 = 0;
        assert_eq!(cursor.fetchable_offset(4, now), Some(5));
        // After a seek or rewind, undecoded records of earlier requests no longer block the partition.
        cursor.undecoded = (1, 3);
        cursor.rewind(3);
        assert_eq!(cursor.fetchable_offset(4, now), Some(5));
        cursor.undecoded = (1, 3);
        cursor.seek(Some(9), -1, 4);
        assert_eq!(cursor.fetchable_offset(4, now), Some(9));
    }

    #[test]
    fn nothing_is_fetched_past_the_end_of_a_bounded_read() {
        let now = Instant::now();
        let mut cursor = Cursor::new(1);
        cursor.until = Some(7);
        cursor.seek(Some(6), -1, 2);
        assert_eq!(cursor.fetchable_offset(3, now), Some(6));
        cursor.fetch_offset = Some(7);
        assert_eq!(cursor.fetchable_offset(3, now), None);
        cursor.seek(Some(9), -1, 3);
        assert_eq!(cursor.fetchable_offset(3, now), None, "seeks do not change the end");
        cursor.until = None;
        assert_eq!(cursor.fetchable_offset(3, now), Some(9));
    }
}
