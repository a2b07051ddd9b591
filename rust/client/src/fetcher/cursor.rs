//! State of one assigned partition.

use std::time::{Duration, Instant};

use samsarrow_wire::messages::Uuid;

use super::state::RETRY_DELAY;
use crate::cluster::metadata::{Leader, Metadata};
use crate::error::Error;
use crate::retry::backoff::Backoff;
use crate::types::TopicPartition;

/// The longest that a partition is left alone after its error was raised.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Source of a start offset that is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Start {
    /// At the group's committed offset; without one, where `auto.offset.reset` says.
    Committed,
    /// By `auto.offset.reset`, because the requested offset is out of range.
    Reset,
}

/// Ends of a partition as reported by a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) node: i32,
    pub(super) high_watermark: i64,
    /// Last stable offset: records from here on belong to open transactions.
    pub(super) stable: i64,
}

/// Log start offset, if known, and the end for this reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) start: Option<i64>,
    pub(super) end: i64,
}

/// Errors and nothing else.
#[derive(Debug)]
pub(super) struct Failing {
    /// Start of the errors of this kind: errors that brokers return, or missing responses.
    pub(super) since: Instant,
    /// The last of them.
    pub(super) error: Error,
    /// Set once missing responses were logged.
    pub(super) logged: bool,
}

/// One assigned partition.
///
/// `position` is what the user was given; `fetch_offset` runs ahead of it by what is queued. `version` rises with every
/// seek, pause and new assignment: whatever was fetched for an older version is void.
#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) version: u64,
    /// The id of the topic that the position is in; zero until a broker has answered a Fetch there, and without ids.
    pub(super) topic_id: Uuid,
    /// The topic was created again while it was read: rows without a topic id may be those of the old one.
    pub(super) recreated: bool,
    pub(super) position: Option<i64>,
    pub(super) fetch_offset: Option<i64>,
    /// Leader epochs of the records before `position` and `fetch_offset`, -1 if unknown (KIP-320).
    pub(super) position_epoch: i32,
    pub(super) last_epoch: i32,
    /// The epoch of the leader whose log was asked whether it has what was read; -1 if none was.
    pub(super) validated_epoch: i32,
    /// The replica to read from instead of the leader, and until when (KIP-392).
    pub(super) replica: Option<(i32, Instant)>,
    pub(super) start: Start,
    /// An offset that is not in the log, until reading continues elsewhere.
    pub(super) out_of_range: Option<i64>,
    /// Parts of answers of this version that are not in the queue yet, and the broker that sent them. Another one's
    /// must not overtake them.
    pub(super) undecoded: (usize, i32),
    pub(super) paused: bool,
    /// Broken until the error was raised by `poll`.
    pub(super) failed: bool,
    /// Errors that were raised with no record in between.
    raised: u32,
    /// Rows at or past this offset are not returned; it stays through seeks.
    pub(super) until: Option<i64>,
    /// The offset after the last returned row: no row lies between it and `position`.
    pub(super) rowless_from: Option<i64>,
    /// The offset of the last commit of returned rows.
    pub(super) committed_rows: Option<i64>,
    /// Not to be fetched before.
    pub(super) retry_at: Option<Instant>,
    pub(super) failing: Option<Failing>,
    /// Last reported ends; `None` after an error.
    pub(super) ends: Option<Ends>,
    /// Ends of the last successful response, which are kept for metrics.
    pub(super) log: Option<Log>,
    /// Pauses between corrections of the fetch offset with no record in between.
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

    /// Continues at `offset`, which invalidates prefetched records.
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

    /// Returns whether the position is in another topic than the one with this id. Without ids there is one topic.
    pub(super) fn is_of_another_topic(&self, id: Uuid) -> bool {
        !self.topic_id.is_zero() && !id.is_zero() && self.topic_id != id
    }

    /// Returns whether rows that end before `offset` may be those of the topic before: no such rows were returned of the
    /// new one.
    pub(super) fn may_be_of_old_topic(&self, offset: i64) -> bool {
        self.recreated && self.position.is_none_or(|position| offset > position)
    }

    /// Starts again in another topic of the same name, where `auto.offset.reset` says.
    pub(super) fn restart(&mut self, topic_id: Uuid, version: u64) {
        self.seek(None, -1, version);
        self.start = Start::Reset;
        self.topic_id = topic_id;
        self.recreated = true;
        self.replica = None;
        self.ends = None;
        self.log = None;
    }

    /// Returns whether the end of a bounded read is reached.
    pub(super) fn is_at_end(&self) -> bool {
        matches!((self.until, self.position), (Some(until), Some(position)) if position >= until)
    }

    /// Moves the position past the `rows` returned, of which `last_row` is the last offset.
    pub(super) fn advance(&mut self, next_offset: i64, epoch: i32, last_row: Option<i64>) {
        if let Some(last) = last_row {
            self.rowless_from = Some(last + 1);
        } else if self.rowless_from.is_none() {
            self.rowless_from = self.position;
        }
        self.position = Some(next_offset);
        self.position_epoch = epoch;
    }

    /// Returns the position if no row lies between `offset` and it.
    pub(super) fn past_rowless(&self, offset: i64) -> Option<i64> {
        let position = self.position?;
        (self.rowless_from? <= offset && offset < position).then_some(position)
    }

    /// Another attempt failed; since when they do.
    pub(super) fn record_failure(&mut self, error: Error, now: Instant) -> Instant {
        let (since, logged) = match self.failing.take() {
            Some(before) if before.error.unanswered() == error.unanswered() => (before.since, before.logged),
            _ => (now, false),
        };
        self.failing = Some(Failing { since, error, logged });
        since
    }

    /// Records came.
    pub(super) fn progress(&mut self) {
        self.failing = None;
        self.corrections = None;
        self.raised = 0;
    }

    /// Returns how long the partition is left alone after the error that is raised now: longer each time, as a program
    /// may poll in a loop.
    pub(super) fn next_raise(&mut self) -> Duration {
        self.raised += 1;
        RETRY_DELAY.saturating_mul(1 << (self.raised - 1).min(10)).min(MAX_RETRY_DELAY)
    }

    /// Redirects fetches to another broker: the first time without a delay, then after growing delays.
    pub(super) fn record_correction(&mut self, backoff: Backoff, now: Instant) {
        match &mut self.corrections {
            None => self.corrections = Some(backoff),
            Some(backoff) => self.retry_at = Some(now + backoff.next_delay()),
        }
    }

    /// Voids what was prefetched; the position stays.
    pub(super) fn rewind(&mut self, version: u64) {
        self.version = version;
        self.undecoded = (0, -1);
        self.failed = false;
        self.fetch_offset = self.position;
        self.last_epoch = self.position_epoch;
        self.validated_epoch = -1;
    }

    /// The broker to read from, and the partition's leader.
    pub(super) fn read_from(&self, tp: &TopicPartition, metadata: &Metadata, now: Instant) -> Option<(i32, Leader)> {
        let leader = metadata.leader(&tp.topic, tp.partition)?;
        let replica = self.replica.filter(|(node, until)| *until > now && metadata.brokers.contains_key(node));
        Some((replica.map_or(leader.node, |(node, _)| node), leader))
    }

    /// Returns the offset to fetch from, if `node` should be requested for this partition now.
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
        // Responses to requests from before a seek or a rewind are invalid.
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
        assert_eq!(cursor.fetchable_offset(3, now), None, "it stays through seeks");
        cursor.until = None;
        assert_eq!(cursor.fetchable_offset(3, now), Some(9));
    }
}
