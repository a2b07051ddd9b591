//! Share-partition: the records of one partition that a share group has started to deliver, with their state, owner,
//! delivery count and acquisition lock (KIP-932).
//!
//! The offsets from `start` to `end` are covered by ranges. Records before `start` are done, records from `end` on were
//! never delivered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use super::settings::ShareSettings;
use crate::history::{self, LockEnd, ShareChange};
use crate::state::topic_creation::Rejection;

/// Delivery state of a range of records.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RecordState {
    Available,
    /// Delivered to `owner`, until the acquisition lock ends.
    Acquired {
        owner: Arc<str>,
        until: Instant,
    },
    /// Accepted, rejected, without a record, or delivered too often.
    Terminal,
}

/// Consecutive records in the same state.
#[derive(Debug, Clone)]
pub(super) struct Range {
    pub(super) last: i64,
    state: RecordState,
    pub(super) deliveries: i16,
    /// First offset and size of the records that were first delivered together. Kafka throttles them together when they
    /// near the delivery limit.
    pub(super) batch: (i64, i64),
}

impl Range {
    pub(super) fn is_available(&self) -> bool {
        self.state == RecordState::Available
    }

    fn is_owned_by(&self, member: &str) -> bool {
        matches!(&self.state, RecordState::Acquired { owner, .. } if **owner == *member)
    }

    /// Makes acquired records available again, or ends their delivery at the delivery limit.
    fn release(&mut self, settings: &ShareSettings) {
        let is_used_up = self.deliveries >= settings.delivery_limit;
        self.state = if is_used_up { RecordState::Terminal } else { RecordState::Available };
    }
}

/// Acknowledgement of a range of records. `types` has one type for all records, or one type for each.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledgement {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) types: Vec<i8>,
}

/// Acknowledgement types: an offset without a record (0), accept (1), release (2), reject (3) and renew (4).
const GAP: i8 = 0;
const RELEASE: i8 = 2;
const REJECT: i8 = 3;
const RENEW: i8 = 4;

/// State of a partition in a share group.
#[derive(Debug)]
pub(crate) struct SharePartition {
    /// Leader epoch of the partition at the last request. Locks do not survive a change of the leader.
    pub(super) leader_epoch: i32,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) ranges: BTreeMap<i64, Range>,
    /// Start offset stored by the share coordinator: the start offset before the last change, because Kafka stores the
    /// changed records and advances the start offset afterwards. It is missing until the first acknowledgement.
    pub(super) stored_start: Option<i64>,
    /// Start offset that an administrator has set while a broker has the partition in memory.
    pub(super) altered: Option<i64>,
}

impl SharePartition {
    pub(super) fn new(start: i64, leader_epoch: i32) -> Self {
        SharePartition { leader_epoch, start, end: start, ranges: BTreeMap::new(), stored_start: None, altered: None }
    }

    /// Creates a share-partition at a start offset that an administrator has set.
    pub(super) fn at_stored(start: i64, leader_epoch: i32) -> Self {
        SharePartition { stored_start: Some(start), ..SharePartition::new(start, leader_epoch) }
    }

    /// Returns the number of records that count towards the limit of a partition. As in Kafka, it includes available
    /// and terminal records between the start and the end.
    pub(super) fn in_flight(&self) -> i64 {
        self.end - self.start
    }

    /// Returns the first offset that can be delivered next: an available record, or the end.
    pub(super) fn next_offset(&self) -> i64 {
        let available = self.ranges.iter().find(|(_, range)| range.is_available());
        available.map_or(self.end, |(first, _)| *first)
    }

    /// Returns the number of terminal records after the start offset.
    pub(crate) fn delivery_complete(&self) -> i64 {
        let terminal = self.ranges.iter().filter(|(_, range)| range.state == RecordState::Terminal);
        terminal.map(|(first, range)| range.last - first + 1).sum()
    }

    /// Splits the range that contains `offset`, so that a range begins there.
    pub(super) fn split(&mut self, offset: i64) {
        let Some((first, range)) = self.ranges.range_mut(..offset).next_back() else { return };
        if range.last >= offset && *first < offset {
            let tail = range.clone();
            range.last = offset - 1;
            self.ranges.insert(offset, tail);
        }
    }

    /// Delivers the available records from `first` to `last` to a member, and returns their new delivery count.
    pub(super) fn deliver(&mut self, first: i64, last: i64, owner: &Arc<str>, until: Instant) -> i16 {
        self.split(first);
        self.split(last.saturating_add(1));
        let mut deliveries = 0;
        for (from, range) in self.ranges.range_mut(first..=last) {
            range.deliveries = range.deliveries.saturating_add(1);
            history::shared(*from, range.last, || ShareChange::Acquired(Arc::clone(owner), range.deliveries));
            range.state = RecordState::Acquired { owner: Arc::clone(owner), until };
            deliveries = range.deliveries;
        }
        deliveries
    }

    /// Adds available records at the end. Offsets between the end and `first` have no records.
    pub(super) fn extend(&mut self, first: i64, last: i64) {
        if first > self.end {
            if self.ranges.is_empty() {
                self.start = first;
            } else {
                let gap = (self.end, first - self.end);
                let range = Range { last: first - 1, state: RecordState::Terminal, deliveries: 0, batch: gap };
                self.ranges.insert(self.end, range);
            }
        }
        let batch = (first, last - first + 1);
        self.ranges.insert(first, Range { last, state: RecordState::Available, deliveries: 0, batch });
        self.end = last.saturating_add(1);
    }

    /// Ends the delivery of the records from `first` to `last`.
    pub(super) fn finish(&mut self, first: i64, last: i64) {
        self.split(first);
        self.split(last.saturating_add(1));
        history::shared(first, last, || ShareChange::LeftOut);
        for (_, range) in self.ranges.range_mut(first..=last) {
            range.state = RecordState::Terminal;
        }
    }

    /// Moves the start offset behind the terminal records at the start.
    pub(super) fn advance(&mut self) {
        while let Some(entry) = self.ranges.first_entry() {
            if entry.get().state != RecordState::Terminal {
                break;
            }
            self.start = entry.remove().last.saturating_add(1);
        }
        if self.ranges.is_empty() {
            self.start = self.end;
        }
    }

    /// Checks that `member` holds all records of an acknowledgement, except those before the start offset.
    fn check(&self, member: &str, ack: &Acknowledgement) -> Result<(), Rejection> {
        let reject = |code, text: &str| Err((code, text.to_owned()));
        if self.ranges.range(..=ack.first.max(self.start)).next_back().is_none() {
            let text = "Batch record not found. The request batch offsets are not found in the cache.";
            return reject(ErrorCode::INVALID_RECORD_STATE, text);
        }
        if ack.first >= self.end {
            let text = "Batch record not found. The first offset in request is past acquired records.";
            return reject(ErrorCode::INVALID_REQUEST, text);
        }
        if ack.last >= self.end {
            let text = "Batch record not found. The last offset in request is past acquired records.";
            return reject(ErrorCode::INVALID_REQUEST, text);
        }
        for (_, range) in self.overlapping(ack.first.max(self.start), ack.last) {
            if !range.is_owned_by(member) {
                let text = match range.state {
                    RecordState::Acquired { .. } => "Member is not the owner of batch record",
                    _ => "The batch cannot be acknowledged. The batch is not in the acquired state.",
                };
                return reject(ErrorCode::INVALID_RECORD_STATE, text);
            }
        }
        Ok(())
    }

    fn overlapping(&self, first: i64, last: i64) -> impl Iterator<Item = (&i64, &Range)> {
        let from = self.ranges.range(..=first).next_back().map_or(first, |(first, _)| *first);
        self.ranges.range(from..=last.max(from)).filter(move |(_, range)| range.last >= first)
    }

    /// Checks sorted, disjoint acknowledgements. Records before the start offset are skipped, as in Kafka.
    pub(super) fn check_all(
        &self,
        member: &str,
        acks: &[Acknowledgement],
        settings: &ShareSettings,
    ) -> Result<(), Rejection> {
        let acks = || acks.iter().filter(|ack| ack.last >= self.start);
        if !settings.renew && acks().any(|ack| ack.types.contains(&RENEW)) {
            let text = "Renew acknowledge is not enabled for the group.".to_owned();
            return Err((ErrorCode::INVALID_RECORD_STATE, text));
        }
        acks().try_for_each(|ack| self.check(member, ack))?;
        if acks().zip(acks().skip(1)).any(|(ack, next)| next.first <= ack.last) {
            let text = "The batch cannot be acknowledged. The offset is not acquired.".to_owned();
            return Err((ErrorCode::INVALID_RECORD_STATE, text));
        }
        Ok(())
    }

    /// Applies sorted, disjoint acknowledgements, all or none.
    pub(super) fn acknowledge(
        &mut self,
        member: &Arc<str>,
        acks: &[Acknowledgement],
        now: Instant,
        settings: &ShareSettings,
    ) -> Result<(), Rejection> {
        self.check_all(member, acks, settings)?;
        let start = self.start;
        for ack in acks.iter().filter(|ack| ack.last >= start) {
            for (first, last, kind) in runs(ack) {
                let first = first.max(self.start);
                history::shared(first, last, || ShareChange::Acknowledged(Arc::clone(member), kind));
                self.apply(first, last, kind, now, settings);
            }
        }
        self.stored_start = Some(self.start);
        self.advance();
        Ok(())
    }

    fn apply(&mut self, first: i64, last: i64, kind: i8, now: Instant, settings: &ShareSettings) {
        if last < first {
            return;
        }
        self.split(first);
        self.split(last.saturating_add(1));
        for (_, range) in self.ranges.range_mut(first..=last) {
            match (kind, &mut range.state) {
                (RENEW, RecordState::Acquired { until, .. }) => *until = now + settings.lock,
                (RELEASE, _) => range.release(settings),
                _ => range.state = RecordState::Terminal,
            }
        }
    }

    /// Releases the acquired records that `is_released` selects. Returns true if there were any.
    fn release_where(
        &mut self,
        settings: &ShareSettings,
        reason: LockEnd,
        is_released: impl Fn(&str, Instant) -> bool,
    ) -> bool {
        let mut released = false;
        for (first, range) in &mut self.ranges {
            let RecordState::Acquired { owner, until } = &range.state else { continue };
            if is_released(owner, *until) {
                history::shared(*first, range.last, || ShareChange::Ended(Arc::clone(owner), reason));
                range.release(settings);
                released = true;
            }
        }
        if released {
            self.stored_start = Some(self.start);
            self.advance();
        }
        released
    }

    /// Releases the records of a member.
    pub(super) fn release(&mut self, member: &str, settings: &ShareSettings) -> bool {
        self.release_where(settings, LockEnd::SessionClosed, |owner, _| owner == member)
    }

    /// Releases the records whose lock has ended.
    pub(super) fn expire(&mut self, now: Instant, settings: &ShareSettings) -> bool {
        self.release_where(settings, LockEnd::Expired, |_, until| until <= now)
    }

    /// Releases all acquired records, as if their locks had ended.
    pub(super) fn expire_all(&mut self, settings: &ShareSettings) -> bool {
        self.release_where(settings, LockEnd::Expired, |_, _| true)
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let until = |range: &Range| match range.state {
            RecordState::Acquired { until, .. } => Some(until),
            _ => None,
        };
        self.ranges.values().filter_map(until).min()
    }

    /// Adapts the state to the leader. A new leader has no locks, because acquisitions are not stored;
    /// neither does it count them as deliveries. Returns false if the state is lost: nothing was stored before the
    /// leader changed.
    pub(super) fn follow_leader(&mut self, leader_epoch: i32) -> bool {
        if self.leader_epoch != leader_epoch {
            self.leader_epoch = leader_epoch;
            if self.stored_start.is_none() {
                history::shared(self.start, i64::MAX, || ShareChange::Forgotten);
                return false;
            }
            for (first, range) in &mut self.ranges {
                if let RecordState::Acquired { owner, .. } = &range.state {
                    let owner = Arc::clone(owner);
                    history::shared(*first, range.last, || ShareChange::Ended(owner, LockEnd::LeaderMoved));
                    range.deliveries = range.deliveries.saturating_sub(1);
                    range.state = RecordState::Available;
                }
            }
        }
        true
    }

    /// Adapts the state to the start and the end of the log.
    pub(super) fn trim(&mut self, log_start: i64, log_end: i64) {
        if self.end > log_end {
            self.split(log_end);
            self.ranges.split_off(&log_end);
            self.end = log_end;
            self.start = self.start.min(log_end);
        }
        if self.start < log_start {
            self.split(log_start);
            self.ranges = self.ranges.split_off(&log_start);
            self.start = log_start;
            self.end = self.end.max(log_start);
            self.advance();
        }
    }
}

/// Splits an acknowledgement into runs of equal types, each with its first and last offset.
fn runs(ack: &Acknowledgement) -> Vec<(i64, i64, i8)> {
    if let [kind] = ack.types.as_slice() {
        return vec![(ack.first, ack.last, *kind)];
    }
    let mut runs: Vec<(i64, i64, i8)> = Vec::new();
    for (offset, kind) in (ack.first..).zip(&ack.types) {
        match runs.last_mut() {
            Some((_, last, of)) if of == kind => *last = offset,
            _ => runs.push((offset, offset, *kind)),
        }
    }
    runs
}

/// Checks the fields of the acknowledgements of one partition, as Kafka does before it looks at its state.
pub(crate) fn check_fields(acks: &[Acknowledgement], may_renew: bool) -> Result<(), Rejection> {
    let reject = |text: &str| Err((ErrorCode::INVALID_REQUEST, text.to_owned()));
    let mut before = 0;
    for ack in acks {
        if ack.first > ack.last {
            return reject("Acknowledgement batch first offset is greater than its last offset.");
        }
        // A batch that starts at the last offset of the previous one passes. The state of the record rejects it.
        if ack.first < before {
            return reject("Acknowledgement batches overlap or are not sorted.");
        }
        before = ack.last;
        let records = ack.last - ack.first + 1;
        let count = i64::try_from(ack.types.len()).unwrap_or(i64::MAX);
        if count == 0 || count > 1 && count != records {
            return reject("Acknowledgement batch must have one type, or one type for each offset.");
        }
        let highest = if may_renew { RENEW } else { REJECT };
        if ack.types.iter().any(|kind| !(GAP..=highest).contains(kind)) {
            return reject("Invalid acknowledge type.");
        }
    }
    Ok(())
}

/// Returns the time at which a lock that starts now ends.
pub(super) fn lock_end(now: Instant, lock: Duration) -> Instant {
    now + lock
}
