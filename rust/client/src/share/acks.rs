//! Acquired records of one partition, and their acknowledgements.

use std::collections::BTreeMap;

use samsarrow_wire::messages::Uuid;
use tokio::time::Instant;

use crate::error::Error;

/// State of one acquired offset. The first five are the types of acknowledgements that wait to be sent, with the
/// numbers of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub(super) enum RowState {
    /// No record has this offset, because of compaction, a transaction marker or an aborted transaction.
    Gap = 0,
    Accept = 1,
    Release = 2,
    Reject = 3,
    Renew = 4,
    /// The row waits in the queue for a poll.
    Queued,
    /// The application has the row and has not acknowledged it.
    Returned,
    /// The application has the row and has renewed its lock.
    Renewed,
    /// A final acknowledgement is in flight.
    Sent,
    /// A renewal is in flight.
    Renewing,
    /// The row was acknowledged, or its lock was lost.
    Done,
}

impl RowState {
    /// Returns true if an acknowledgement waits to be sent.
    pub(super) fn is_pending(self) -> bool {
        (self as i8) <= Self::Renew as i8
    }

    /// Returns true if the application has the row and may acknowledge it.
    pub(super) fn is_out(self) -> bool {
        matches!(self, Self::Returned | Self::Renewed | Self::Renewing) || (self.is_pending() && self != Self::Gap)
    }
}

/// A share session of one broker, by the broker and the number of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionId {
    pub(super) node: i32,
    pub(super) number: u64,
}

/// A range of offsets that one response has acquired.
#[derive(Debug, Clone)]
pub(super) struct Acquired {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) session: SessionId,
    /// Time at which the acquisition lock ends.
    pub(super) locked_until: Instant,
    pub(super) states: Vec<RowState>,
    /// Error that has ended the session, so that the locks are lost.
    pub(super) lost: Option<Error>,
    /// True if a renewal failed. The range is then not renewed automatically.
    pub(super) renewal_failed: bool,
    /// Commits that report the acknowledgements that wait to be sent.
    pub(super) commits: Vec<u64>,
    /// True if the application has decided about rows since the last of `commits`.
    pub(super) has_new_decisions: bool,
}

impl Acquired {
    pub(super) fn contains(&self, offset: i64) -> bool {
        (self.first..=self.last).contains(&offset)
    }

    fn index(&self, offset: i64) -> usize {
        usize::try_from(offset - self.first).unwrap_or(usize::MAX)
    }

    pub(super) fn state(&self, offset: i64) -> Option<RowState> {
        self.states.get(self.index(offset)).copied()
    }

    /// Returns true if any offset has a state for which `is` returns true.
    pub(super) fn any(&self, is: impl Fn(RowState) -> bool) -> bool {
        any(&self.states, is)
    }

    /// Returns true if the row waits for a poll, and its lock has not ended.
    pub(super) fn is_queued(&self, offset: i64, now: Instant) -> bool {
        self.lost.is_none() && self.locked_until > now && self.state(offset) == Some(RowState::Queued)
    }

    fn has_pending(&self) -> bool {
        self.any(RowState::is_pending)
    }

    /// Keeps the decisions about rows that this range replaces. The application has these rows, so its acknowledgements
    /// apply to the new delivery, and no poll returns them again. Renewed rows whose lock has ended are returned again,
    /// because nothing makes the application decide about them.
    fn keep_decisions(&mut self, replaced: &Acquired, now: Instant) {
        // The leader of a session acquires a record again only after its lock has ended there.
        let is_locked = replaced.session != self.session && replaced.locked_until > now;
        let (from, index) = (self.index(replaced.first), replaced.states.iter());
        for (state, old) in self.states.iter_mut().skip(from).zip(index) {
            *state = match old {
                _ if *state != RowState::Queued => *state,
                RowState::Renewed | RowState::Renewing if !is_locked => *state,
                RowState::Renewing => RowState::Renewed,
                old if old.is_out() => *old,
                // An acknowledgement in flight has its own outcome.
                _ => *state,
            };
        }
        self.commits.extend(&replaced.commits);
        self.commits.sort_unstable();
        self.commits.dedup();
        self.has_new_decisions |= replaced.has_new_decisions;
    }

    /// Takes the commits that report the acknowledgements that wait to be sent, `next` for new decisions.
    fn take_commits(&mut self, next: u64) -> Vec<u64> {
        let mut commits = std::mem::take(&mut self.commits);
        if std::mem::take(&mut self.has_new_decisions) || commits.is_empty() {
            commits.push(next);
        }
        commits
    }

    fn is_done(&self) -> bool {
        !self.any(|state| state != RowState::Done)
    }

    /// Returns the offsets from `first` to `last` as a range of its own.
    fn part(&self, first: i64, last: i64) -> Option<Acquired> {
        let states = self.states.get(self.index(first)..=self.index(last))?.to_vec();
        Some(Acquired { first, last, states, ..self.clone() })
    }
}

/// Returns true if `is` returns true for any state.
pub(super) fn any(states: &[RowState], is: impl Fn(RowState) -> bool) -> bool {
    // States per step: without an exit in between, a step is vectorised.
    const BLOCK: usize = 256;
    states.chunks(BLOCK).any(|block| block.iter().fold(false, |so_far, state| so_far | is(*state)))
}

/// Acknowledgements of one acquired range that were taken to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) first: i64,
    /// The type of each offset from `first` on; `None` if the offset is not acknowledged.
    pub(super) types: Vec<Option<i8>>,
    /// Commits that report the outcome.
    pub(super) commits: Vec<u64>,
}

impl Taken {
    /// Returns the offsets that are acknowledged, as ranges of adjacent offsets.
    pub(super) fn ranges(&self) -> Vec<(i64, i64)> {
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        for (offset, kind) in (self.first..).zip(&self.types) {
            match ranges.last_mut() {
                _ if kind.is_none() => {}
                Some((_, last)) if *last + 1 == offset => *last = offset,
                _ => ranges.push((offset, offset)),
            }
        }
        ranges
    }

    /// Returns the number of acknowledged offsets.
    pub(super) fn count(&self) -> usize {
        self.types.iter().flatten().count()
    }
}

/// Acquired ranges of one partition.
#[derive(Debug, Default)]
pub(super) struct PartitionRows {
    ranges: BTreeMap<i64, Acquired>,
    /// Id of the topic that the records were read from.
    pub(super) topic_id: Uuid,
    /// Number of ranges in flight with acknowledgements, by the first commit that reports their outcome.
    in_flight: BTreeMap<u64, u32>,
}

impl PartitionRows {
    /// Sets the topic's id. Records of an earlier topic with this name are lost. Returns the rows that the application
    /// has, and the acknowledgements that can no longer be sent, for the commit `next` or an earlier one.
    pub(super) fn use_topic(&mut self, topic_id: Uuid, next: u64) -> Vec<Taken> {
        if self.topic_id == topic_id {
            return Vec::new();
        }
        self.topic_id = topic_id;
        let lost = |mut range: Acquired| {
            let kind = |state: &RowState| {
                let is_lost = state.is_pending() || matches!(state, RowState::Returned | RowState::Renewed);
                is_lost.then(|| if state.is_pending() { *state as i8 } else { RowState::Accept as i8 })
            };
            let types = range.states.iter().map(kind).collect();
            Taken { first: range.first, types, commits: range.take_commits(next) }
        };
        std::mem::take(&mut self.ranges).into_values().map(lost).filter(|taken| taken.count() > 0).collect()
    }

    /// Adds a range. If it contains offsets of earlier ranges, the broker has ended their locks; decisions about rows
    /// that the application has apply to the new locks.
    pub(super) fn insert(&mut self, mut new: Acquired, now: Instant) {
        let overlapping: Vec<i64> = self
            .ranges
            .range(..=new.last)
            .rev()
            .take_while(|(_, old)| old.last >= new.first)
            .map(|(first, _)| *first)
            .collect();
        for first in overlapping {
            let Some(old) = self.ranges.remove(&first) else { continue };
            if let Some(replaced) = old.part(old.first.max(new.first), old.last.min(new.last)) {
                new.keep_decisions(&replaced, now);
            }
            let before = (old.first < new.first).then(|| old.part(old.first, new.first - 1)).flatten();
            let after = (old.last > new.last).then(|| old.part(new.last + 1, old.last)).flatten();
            self.ranges.extend(before.into_iter().chain(after).map(|part| (part.first, part)));
        }
        self.ranges.insert(new.first, new);
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = &Acquired> {
        self.ranges.values()
    }

    pub(super) fn range(&self, offset: i64) -> Option<&Acquired> {
        self.ranges.range(..=offset).next_back().map(|(_, range)| range).filter(|range| range.contains(offset))
    }

    pub(super) fn state(&self, offset: i64) -> Option<RowState> {
        self.range(offset)?.state(offset)
    }

    /// Returns the first offset with this state.
    pub(super) fn first_with(&self, searched: RowState) -> Option<i64> {
        self.ranges.values().filter(|range| range.any(|state| state == searched)).find_map(|range| {
            let index = range.states.iter().position(|state| *state == searched)?;
            Some(range.first + index as i64)
        })
    }

    /// Returns the first of `offsets` without a state for which `is` returns true.
    pub(super) fn first_without(
        &self,
        offsets: impl IntoIterator<Item = i64>,
        is: impl Fn(RowState) -> bool,
    ) -> Option<i64> {
        let mut current: Option<&Acquired> = None;
        offsets.into_iter().find(|offset| {
            if current.is_none_or(|range| !range.contains(*offset)) {
                current = self.range(*offset);
            }
            !current.and_then(|range| range.state(*offset)).is_some_and(&is)
        })
    }

    fn first_at(&self, offset: i64) -> i64 {
        self.ranges.range(..=offset).next_back().map_or(offset, |(first, _)| *first)
    }

    /// Like [`first_without`](Self::first_without), for all offsets from `first` to `last`.
    pub(super) fn first_without_in(&self, first: i64, last: i64, is: impl Fn(RowState) -> bool) -> Option<i64> {
        let mut next = first;
        let overlapping = self.ranges.range(self.first_at(first)..=last).map(|(_, range)| range);
        for range in overlapping.filter(|range| range.last >= first) {
            if range.first > next {
                return Some(next);
            }
            let states = range.states.get(range.index(next)..=range.index(last.min(range.last))).unwrap_or_default();
            // Most ranges have no other state, which `any` finds out faster.
            if any(states, |state| !is(state))
                && let Some(index) = states.iter().position(|state| !is(*state))
            {
                return Some(next + index as i64);
            }
            next = range.last.saturating_add(1);
        }
        (next <= last).then_some(next)
    }

    /// Returns true if all offsets from `first` to `last` wait for a poll, and their locks have not ended.
    pub(super) fn all_queued(&self, first: i64, last: i64, now: Instant) -> bool {
        let mut overlapping = self.ranges.range(self.first_at(first)..=last).map(|(_, range)| range);
        overlapping.all(|range| range.last < first || (range.lost.is_none() && range.locked_until > now))
            && self.first_without_in(first, last, |state| state == RowState::Queued).is_none()
    }

    /// Sets the state of all offsets from `first` to `last`; unknown offsets are skipped.
    pub(super) fn set_range(&mut self, first: i64, last: i64, state: RowState) {
        let overlapping = self.ranges.range_mut(self.first_at(first)..=last).map(|(_, range)| range);
        for range in overlapping.filter(|range| range.last >= first) {
            let (begin, end) = (range.index(first.max(range.first)), range.index(last.min(range.last)));
            range.states.get_mut(begin..=end).unwrap_or_default().fill(state);
            range.has_new_decisions |= state.is_pending();
        }
    }

    /// Sets the state of offsets; unknown offsets are skipped.
    pub(super) fn set(&mut self, offsets: impl IntoIterator<Item = (i64, RowState)>) {
        let mut current: Option<&mut Acquired> = None;
        for (offset, state) in offsets {
            if current.as_ref().is_none_or(|range| !range.contains(offset)) {
                current = self
                    .ranges
                    .range_mut(..=offset)
                    .next_back()
                    .map(|(_, range)| range)
                    .filter(|range| range.contains(offset));
            }
            if let Some(range) = current.as_mut() {
                let index = range.index(offset);
                if let Some(slot) = range.states.get_mut(index) {
                    *slot = state;
                    range.has_new_decisions |= state.is_pending();
                }
            }
        }
    }

    /// Replaces every state `from` by `to`.
    pub(super) fn replace(&mut self, from: RowState, to: RowState) {
        for range in self.ranges.values_mut() {
            for state in &mut range.states {
                if *state == from {
                    *state = to;
                    range.has_new_decisions |= to.is_pending();
                }
            }
        }
    }

    /// Takes the waiting acknowledgements of a session's rows, for the commit `next` if no earlier one waits for them.
    /// Those that are past their lock or whose session is lost are not sent, and are the second result, with the
    /// reason.
    pub(super) fn take_pending(
        &mut self,
        session: SessionId,
        now: Instant,
        next: u64,
    ) -> (Vec<Taken>, Vec<(Taken, Option<Error>)>) {
        let (mut sent, mut failed) = (Vec::new(), Vec::new());
        for range in self.ranges.values_mut() {
            let is_lost = range.lost.is_some();
            if (!is_lost && range.session != session) || !range.has_pending() {
                continue;
            }
            let is_sent = !is_lost && now < range.locked_until;
            let take = |state: &mut RowState| {
                let kind = state.is_pending().then_some(*state as i8);
                if kind.is_some() {
                    *state = match *state {
                        _ if !is_sent => RowState::Done,
                        RowState::Renew => RowState::Renewing,
                        _ => RowState::Sent,
                    };
                }
                kind
            };
            let types = range.states.iter_mut().map(take).collect();
            let taken = Taken { first: range.first, types, commits: range.take_commits(next) };
            if is_sent {
                let first = taken.commits.first().copied().unwrap_or(next);
                *self.in_flight.entry(first).or_default() += 1;
                sent.push(taken);
            } else {
                failed.push((taken, range.lost.clone()));
            }
        }
        self.remove_done();
        (sent, failed)
    }

    /// Records that the request with these acknowledgements has completed.
    pub(super) fn complete(&mut self, taken: &[Taken]) {
        for commit in taken.iter().filter_map(|taken| taken.commits.first()) {
            if let Some(count) = self.in_flight.get_mut(commit) {
                *count -= 1;
                if *count == 0 {
                    self.in_flight.remove(commit);
                }
            }
        }
    }

    /// Makes the commit with this number wait for all acknowledgements that no earlier one waits for. Returns true if
    /// any is not complete.
    pub(super) fn begin_commit(&mut self, commit: u64) -> bool {
        for range in self.ranges.values_mut().filter(|range| range.has_pending()) {
            if std::mem::take(&mut range.has_new_decisions) || range.commits.is_empty() {
                range.commits.push(commit);
            }
        }
        !self.is_complete(commit)
    }

    /// Returns true if a commit waits for acknowledgements of a session.
    pub(super) fn has_commit(&self, session: SessionId) -> bool {
        let waits = |range: &Acquired| range.session == session && !range.commits.is_empty() && range.has_pending();
        self.ranges.values().any(waits)
    }

    /// Returns true if all acknowledgements up to the commit with this number have an outcome.
    pub(super) fn is_complete(&self, commit: u64) -> bool {
        let waits = |range: &Acquired| range.commits.iter().any(|number| *number <= commit) && range.has_pending();
        self.in_flight.keys().next().is_none_or(|first| *first > commit) && !self.ranges.values().any(waits)
    }

    /// Records that the broker has applied acknowledgements. `renewed_until` is the end of renewed locks.
    pub(super) fn applied(&mut self, taken: &Taken, renewed_until: Instant) {
        self.complete_states(taken);
        let is_renewal = |kind: &Option<i8>| *kind == Some(RowState::Renew as i8);
        if taken.types.iter().any(is_renewal) {
            let types = taken.types.iter().map(|kind| kind.filter(|_| is_renewal(kind))).collect();
            self.extend_locks(&Taken { first: taken.first, types, commits: Vec::new() }.ranges(), renewed_until);
        }
        self.remove_done();
    }

    /// Changes the states of acknowledgements in flight to those after a response.
    fn complete_states(&mut self, taken: &Taken) {
        let last = taken.first.saturating_add_unsigned(taken.types.len() as u64).saturating_sub(1);
        let from = self.first_at(taken.first);
        for range in self.ranges.range_mut(from..=last.max(from)).map(|(_, range)| range) {
            let first = range.first.max(taken.first);
            let (skipped, index) = (range.index(first), usize::try_from(first - taken.first).unwrap_or(usize::MAX));
            let states = range.states.iter_mut().skip(skipped);
            for (state, _) in states.zip(taken.types.iter().skip(index)).filter(|(_, kind)| kind.is_some()) {
                *state = match *state {
                    RowState::Sent => RowState::Done,
                    RowState::Renewing => RowState::Renewed,
                    other => other,
                };
            }
        }
    }

    /// Records that the broker has rejected acknowledgements. The locks of renewed rows are unchanged.
    pub(super) fn rejected(&mut self, taken: &Taken) {
        self.complete_states(taken);
        self.remove_done();
    }

    /// Sets the end of the locks of offset ranges, and splits the acquired ranges at their ends.
    pub(super) fn extend_locks(&mut self, renewed: &[(i64, i64)], until: Instant) {
        for (first, last) in renewed {
            self.split_at(*first);
            self.split_at(last.saturating_add(1));
            for range in self.ranges.range_mut(*first..=*last).map(|(_, range)| range) {
                range.locked_until = until;
                range.renewal_failed = false;
            }
        }
    }

    /// Splits the range that contains `offset`, so that a range begins there.
    fn split_at(&mut self, offset: i64) {
        let Some(range) = self.range(offset).filter(|range| range.first < offset) else { return };
        let (before, after) = (range.part(range.first, offset - 1), range.part(offset, range.last));
        for part in before.into_iter().chain(after) {
            self.ranges.insert(part.first, part);
        }
    }

    /// Marks ranges whose automatic renewal failed.
    pub(super) fn renewal_failed(&mut self, ranges: &[(i64, i64)]) {
        for (first, last) in ranges {
            for range in self.ranges.values_mut().filter(|range| range.first <= *last && range.last >= *first) {
                range.renewal_failed = true;
            }
        }
    }

    /// Returns the offsets of a session's rows that the application has, whose locks end before `before`.
    pub(super) fn to_renew(&self, session: SessionId, before: Instant) -> Vec<Taken> {
        let due = |range: &&Acquired| {
            range.session == session && range.lost.is_none() && !range.renewal_failed && range.locked_until < before
        };
        let renew =
            |state: &RowState| matches!(state, RowState::Returned | RowState::Renewed).then_some(RowState::Renew as i8);
        self.ranges
            .values()
            .filter(due)
            .map(|range| Taken {
                first: range.first,
                types: range.states.iter().map(renew).collect(),
                commits: Vec::new(),
            })
            .filter(|taken| taken.count() > 0)
            .collect()
    }

    /// Marks the rows of a session as lost. Rows in the queue are dropped; rows that the application has stay until it
    /// acknowledges them, which then fails with `error`.
    pub(super) fn lose(&mut self, session: SessionId, error: &Error) {
        for range in self.ranges.values_mut().filter(|range| range.session == session && range.lost.is_none()) {
            range.lost = Some(error.clone());
            for state in &mut range.states {
                match state {
                    RowState::Queued | RowState::Gap => *state = RowState::Done,
                    RowState::Renewing => *state = RowState::Renewed,
                    _ => {}
                }
            }
        }
        self.remove_done();
    }

    fn remove_done(&mut self) {
        self.ranges.retain(|_, range| !range.is_done());
    }
}

#[cfg(test)]
#[path = "acks_tests.rs"]
mod tests;
