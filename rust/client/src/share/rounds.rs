//! Choice of the next request to a broker. A session has one request in flight at a time (KIP-932).

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::acks::{PartitionRows, RowState, SessionId};
use super::options::{AcquireMode, ShareOptions};
use super::state::{PartitionId, Sent, State};
use crate::types::TopicPartition;

/// Epoch of the last request of a session.
pub(super) const FINAL_EPOCH: i32 = -1;
/// Part of the lock time after which locks are renewed automatically.
const RENEW_AFTER: f64 = 2.0 / 3.0;

/// Partitions to read from a broker.
type Targets = BTreeMap<PartitionId, TopicPartition>;

/// The next step of a session.
#[derive(Debug)]
pub(super) enum Step {
    Fetch {
        epoch: i32,
        /// Partitions to add to the session.
        added: Vec<PartitionId>,
        /// Partitions to remove from the session.
        forgotten: Vec<PartitionId>,
        acknowledgements: Vec<Sent>,
        /// Maximum time that the broker may wait for records, if a lock must be renewed after it.
        max_wait: Option<Duration>,
    },
    Acknowledge {
        epoch: i32,
        is_renewal: bool,
        /// True if `auto_renew` renews the locks. The states of the rows then stay as they are.
        is_automatic: bool,
        acknowledgements: Vec<Sent>,
    },
    /// Close the earlier session that the broker still has.
    CloseEarlier,
    /// Nothing to do until something changes, or until the time.
    Wait(Option<Instant>),
    /// The consumer is closing, and the session is closed.
    End,
}

impl State {
    /// Chooses the next request to a broker and records it as sent.
    pub(super) fn next_step(&mut self, node: i32, options: &ShareOptions, max_idle: Duration, now: Instant) -> Step {
        // Acknowledgements of lost sessions fail without a request.
        if self.has_lost() {
            self.fail_lost(now);
        }
        let Some(session) = self.sessions.get_mut(&node) else { return Step::End };
        if std::mem::take(&mut session.has_earlier) {
            return Step::CloseEarlier;
        }
        let (id, epoch, flush) = (session.id, session.epoch, session.flush);
        if self.closing {
            return self.last_step(node, now);
        }
        if session.not_before.is_some_and(|not_before| not_before > now) {
            return Step::Wait(session.not_before);
        }
        let is_polled = session.fetched_for < self.polls || self.waiting > 0;
        let acknowledgements_due = session.acknowledged_for < self.polls;
        let targets = self.targets.get(&node).cloned().unwrap_or_default();
        let fetches = is_polled
            && !targets.is_empty()
            && self.queue.is_empty()
            && (options.acquire_mode == AcquireMode::BatchOptimized || self.is_turn_of(node));
        if epoch > 0 {
            let renews = self.has_pending(id, |state| state == RowState::Renew);
            let sends = flush
                || renews
                || (options.auto_renew && self.has_acknowledged_due(id, now))
                || (acknowledgements_due && (!fetches || self.has_pending_outside(id, &targets)));
            if sends && self.has_pending(id, RowState::is_pending) {
                let acknowledgements = self.take_pending(id, now, |_| true);
                if !acknowledgements.is_empty() {
                    self.acknowledged(node);
                    return Step::Acknowledge { epoch, is_renewal: renews, is_automatic: false, acknowledgements };
                }
            }
        }
        if let Some(session) = self.sessions.get_mut(&node) {
            session.flush = false;
        }
        // Renewals precede fetches: while polls wait for records, one fetch follows the other.
        if options.auto_renew && epoch > 0 && (self.waiting > 0 || now < self.last_poll + max_idle) {
            let acknowledgements = self.renewals(node, now);
            if !acknowledgements.is_empty() {
                return Step::Acknowledge { epoch, is_renewal: true, is_automatic: true, acknowledgements };
            }
        }
        if fetches {
            return self.fetch(node, targets, options, now);
        }
        let has_rows = || self.rows.values().any(|rows| rows.ranges().any(|range| range.session == id));
        if epoch > 0 && targets.is_empty() && !has_rows() {
            return Step::Acknowledge {
                epoch: FINAL_EPOCH,
                is_renewal: false,
                is_automatic: false,
                acknowledgements: Vec::new(),
            };
        }
        Step::Wait(options.auto_renew.then(|| self.next_renewal(node, now)).flatten())
    }

    /// Returns the request that closes the session and has the last acknowledgements, or the end. The broker then
    /// releases all other rows of the session, also those of a response that arrived after the call of `close`.
    fn last_step(&mut self, node: i32, now: Instant) -> Step {
        let Some(session) = self.sessions.get(&node) else { return Step::End };
        let (id, is_open) = (session.id, session.epoch > 0);
        if !is_open {
            return Step::End;
        }
        // A renewal at this point would only keep the row from other members.
        self.replace(RowState::Renew, RowState::Release);
        let acknowledgements = self.take_pending(id, now, |_| true);
        Step::Acknowledge { epoch: FINAL_EPOCH, is_renewal: false, is_automatic: false, acknowledgements }
    }

    fn fetch(&mut self, node: i32, targets: Targets, options: &ShareOptions, now: Instant) -> Step {
        let polls = self.polls;
        let Some(session) = self.sessions.get(&node) else { return Step::End };
        let (id, epoch, listed) = (session.id, session.epoch, session.listed.clone());
        // A request that opens a session must have no acknowledgements: the broker rejects it as a whole.
        let acknowledgements = if epoch > 0 {
            self.take_pending(id, now, |partition| targets.contains_key(partition))
        } else {
            Vec::new()
        };
        let added = targets.keys().filter(|partition| !listed.contains_key(partition)).copied().collect();
        let forgotten = listed.keys().filter(|partition| !targets.contains_key(partition)).copied().collect();
        self.last_fetched = Some(node);
        if let Some(session) = self.sessions.get_mut(&node) {
            session.listed = targets;
            session.fetched_for = polls;
            session.acknowledged_for = polls;
            session.fetching = true;
        }
        // A session has one request at a time, so a renewal that becomes due waits for the response.
        let renewal = options.auto_renew.then(|| self.next_renewal(node, now)).flatten();
        let max_wait = renewal.map(|renewal| renewal.saturating_duration_since(now) + Duration::from_millis(1));
        Step::Fetch { epoch, added, forgotten, acknowledgements, max_wait }
    }

    fn acknowledged(&mut self, node: i32) {
        let polls = self.polls;
        if let Some(session) = self.sessions.get_mut(&node) {
            session.flush = false;
            session.acknowledged_for = polls;
        }
    }

    /// Returns true if no other broker is fetched from, and this one is next in turn (`record_limit`).
    fn is_turn_of(&self, node: i32) -> bool {
        if self.sessions.values().any(|session| session.fetching) {
            return false;
        }
        let can_fetch = |other: &i32| {
            let blocked = self.sessions.get(other).is_none_or(|session| session.not_before.is_some());
            !blocked || *other == node
        };
        let mut nodes = self.targets.iter().filter(|(_, targets)| !targets.is_empty()).map(|(node, _)| node);
        let first = nodes.clone().find(|node| can_fetch(node));
        let last = self.last_fetched.unwrap_or(i32::MIN);
        nodes.find(|next| **next > last && can_fetch(next)).or(first) == Some(&node)
    }

    /// Returns true if acknowledgements wait for partitions that the session does not fetch. A ShareFetch that listed
    /// them would add them to the session again.
    fn has_pending_outside(&self, id: SessionId, targets: &Targets) -> bool {
        let outside = self.rows.iter().filter(|(tp, rows)| !targets.contains_key(&(rows.topic_id, tp.partition)));
        let mut ranges = outside.flat_map(|(_, rows)| rows.ranges());
        ranges.any(|range| range.session == id && range.any(RowState::is_pending))
    }

    /// Reports acknowledgements of rows whose session is lost.
    fn fail_lost(&mut self, now: Instant) {
        // No session has this number, so that only lost rows are taken.
        let none = SessionId { node: -1, number: 0 };
        self.take_pending(none, now, |_| true);
    }

    /// Returns renewals of the locks that end soon.
    fn renewals(&self, node: i32, now: Instant) -> Vec<Sent> {
        let (Some(session), Some(lock_timeout)) = (self.sessions.get(&node), self.lock_timeout) else { return vec![] };
        let before = now + lock_timeout.mul_f64(1.0 - RENEW_AFTER);
        let renew = |(tp, rows): (&TopicPartition, &PartitionRows)| {
            let taken = rows.to_renew(session.id, before);
            (!taken.is_empty()).then(|| Sent { tp: tp.clone(), topic_id: rows.topic_id, taken })
        };
        self.rows.iter().filter_map(renew).collect()
    }

    /// Returns true if an acknowledgement waits to be sent and the lock of its row ends soon. Only locks of rows without
    /// an acknowledgement are renewed, so the next poll of a slow program would send it too late.
    fn has_acknowledged_due(&self, session: SessionId, now: Instant) -> bool {
        let Some(lock_timeout) = self.lock_timeout else { return false };
        let before = now + lock_timeout.mul_f64(1.0 - RENEW_AFTER);
        self.rows.values().flat_map(PartitionRows::ranges).any(|range| {
            range.session == session
                && range.lost.is_none()
                && range.locked_until < before
                && range.any(|state| state.is_pending() && state != RowState::Gap)
        })
    }

    /// Returns the next time after `now` at which a lock must be renewed, or an acknowledgement be sent.
    fn next_renewal(&self, node: i32, now: Instant) -> Option<Instant> {
        let (session, lock_timeout) = (self.sessions.get(&node)?, self.lock_timeout?);
        let ahead = lock_timeout.mul_f64(1.0 - RENEW_AFTER);
        let ranges = self.rows.values().flat_map(PartitionRows::ranges);
        let times = ranges
            .filter(|range| range.session == session.id && range.lost.is_none() && !range.renewal_failed)
            .filter(|range| range.any(RowState::is_out))
            .map(|range| range.locked_until - ahead + Duration::from_millis(1));
        times.filter(|time| *time > now).min()
    }
}

/// Returns the epoch after `epoch`. It never becomes 0, which would open a new session.
pub(super) fn next_epoch(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
