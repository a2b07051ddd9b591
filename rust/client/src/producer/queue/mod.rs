//! One partition's batches: open, waiting, in flight; and the rules that keep them in order and free of duplicates.
//!
//! With idempotence each batch carries a producer identity and the sequence of its first record, and the broker takes a
//! batch only if it follows the last one. So a batch that fails for now goes back in its place with its sequence, and
//! while the oldest batch is a resend it travels alone: its answer then says for certain whether it was appended.
//! A broker that knows nothing of an identity takes any sequence as the first one, so until a leader has taken a batch
//! the oldest travels alone as well: were it refused for now (a new topic's leader that is not ready yet), the one behind
//! it would be taken in its stead, and it could never be appended.
//! When a batch fails for good, a gap is left in front of its successors. They first go out under their old sequences
//! (the failed one may have been appended after all, its answer lost); if the broker then finds the gap, none of them
//! was appended, and they are numbered anew under a new identity.

mod expiry;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::expiry::timed_out;
use super::batch::{Batch, Identity, Settled, advance};
use super::delivery_state::{Appended, BatchState};
use crate::error::Error;

/// Batches of one partition that a broker remembers for an idempotent producer.
pub(crate) const MAX_IDEMPOTENT_IN_FLIGHT: usize = 5;

/// What a queue goes by.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) idempotent: bool,
    /// The identity is that of a transactional producer: no queue changes it by itself.
    pub(crate) transactional: bool,
    pub(crate) linger: Duration,
    pub(crate) retries: u32,
    pub(crate) backoff: Duration,
    pub(crate) backoff_max: Duration,
    pub(crate) delivery_timeout: Duration,
}

/// Whether a queue has something to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Nothing there.
    Idle,
    /// Not before an answer or an event that wakes the sender anyway.
    Blocked,
    /// Not before this moment.
    At(Instant),
    /// A batch may go along with others to its broker; it would go by itself at the given moment.
    Lingering(Instant),
    /// Now.
    Ready,
}

/// How the broker, or the way to it, refused a batch.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) kind: FailureKind,
    /// The errors of single records, by their index in the batch (KIP-467); `error` is that of the others.
    pub(crate) records: BTreeMap<u32, Error>,
}

impl Failure {
    /// A failure of all records alike.
    pub(crate) fn new(error: Error, kind: FailureKind) -> Self {
        Self { error, kind, records: BTreeMap::new() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// May pass; the batch may have been appended.
    Retriable,
    /// Will not pass; the batch was not appended.
    Refused,
    /// Will not pass; the batch may have been appended.
    Unknown,
    /// The sequence does not follow the last one: not appended.
    OutOfOrder,
    /// The broker no longer knows the identity, or knows a newer epoch: not appended.
    UnknownIdentity,
}
#[derive(Debug)]
struct Sent {
    order: u64,
    deadline: Instant,
    expired: bool,
    state: Arc<BatchState>,
    first: u32,
    count: u32,
}

/// The batches of one partition.
#[derive(Debug, Default)]
pub(crate) struct PartitionQueue {
    /// The batch that still takes records.
    pub(crate) open: Option<Batch>,
    /// On the sender's list of partitions to look at.
    pub(crate) listed: bool,
    /// The node that leads the partition, as far as known.
    pub(crate) leader: Option<i32>,
    waiting: VecDeque<Batch>,
    in_flight: VecDeque<Sent>,
    in_flight_node: i32,
    retry_at: Option<Instant>,
    identity: Option<Identity>,
    /// The leader has taken a batch under `identity`, and holds the next ones against it.
    established: bool,
    next_sequence: i32,
    /// Places of batches that failed for good although the broker may expect their sequences.
    gaps: Vec<u64>,
    /// An identity whose sequences are void in this partition: the next batch needs a newer one.
    pub(crate) spent: Option<Identity>,
    records: u64,
}

impl PartitionQueue {
    /// The place of a new batch of `count` records.
    pub(crate) fn place(&self) -> u64 {
        self.records
    }

    /// Counts records added, so that the next batch knows its place.
    pub(crate) fn add_records(&mut self, count: u32) {
        self.records += u64::from(count);
    }

    /// Closes the open batch: it waits to be sent from now on.
    pub(crate) fn close_open(&mut self) {
        if let Some(batch) = self.open.take() {
            self.push(batch);
        }
    }

    /// Adds a batch behind all others.
    pub(crate) fn push(&mut self, batch: Batch) {
        batch.state.close(batch.first + batch.count);
        self.waiting.push_back(batch);
    }

    /// Batches that wait to be sent.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len() + usize::from(self.open.is_some())
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_none() && self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// Whether the next batch needs an identity that the queue does not have.
    pub(crate) fn wants_identity(&self) -> bool {
        self.identity.is_none()
    }

    /// Whether to send now; `force` sends what still lingers.
    pub(crate) fn readiness(&self, now: Instant, rules: &Rules, force: bool) -> Readiness {
        let Some(front) = self.waiting.front().or(self.open.as_ref()) else { return Readiness::Idle };
        // The wait is the batch's that failed: with its end, those behind it owe nobody a wait.
        if let Some(at) = self.retry_at.filter(|at| *at > now && front.attempts > 0) {
            return Readiness::At(at);
        }
        if !self.in_flight.is_empty() {
            let moved = self.leader != Some(self.in_flight_node);
            let full = rules.idempotent && self.in_flight.len() >= MAX_IDEMPOTENT_IN_FLIGHT;
            let unknown = rules.idempotent && (self.identity.is_none() || !self.established);
            if front.attempts > 0 || moved || full || unknown {
                return Readiness::Blocked;
            }
        }
        let due = front.created + rules.linger;
        if !self.waiting.is_empty() || force || due <= now {
            return Readiness::Ready;
        }
        Readiness::Lingering(due)
    }

    /// Size of the batch that [`take`](Self::take) would hand out.
    pub(crate) fn front_size(&self) -> usize {
        self.waiting.front().or(self.open.as_ref()).map_or(0, Batch::size)
    }

    /// The oldest batch, numbered and counted as in flight to `node`.
    pub(crate) fn take(&mut self, node: i32, rules: &Rules, identity: Option<Identity>) -> Option<Batch> {
        if self.waiting.is_empty() {
            self.close_open();
        }
        let mut batch = self.waiting.pop_front()?;
        if rules.idempotent {
            if self.identity.is_none() {
                self.identity = identity;
                self.established = false;
                self.next_sequence = 0;
            }
            self.established &= self.in_flight_node == node;
            let current = self.identity?;
            if batch.numbered.is_none_or(|(identity, _)| identity != current) {
                batch.numbered = Some((current, self.next_sequence));
                self.next_sequence = advance(self.next_sequence, batch.count);
            }
        }
        batch.attempts += 1;
        self.retry_at = None;
        self.in_flight_node = node;
        self.in_flight.push_back(Sent {
            order: batch.order,
            deadline: batch.deadline,
            expired: false,
            state: Arc::clone(&batch.state),
            first: batch.first,
            count: batch.count,
        });
        Some(batch)
    }

    /// The answer for a batch that was taken. `None`: the batch waits for its next attempt.
    pub(crate) fn answered(
        &mut self,
        mut batch: Batch,
        answer: std::result::Result<Appended, Failure>,
        rules: &Rules,
        now: Instant,
    ) -> Option<Settled> {
        let expired = self.landed(batch.order);
        let late = |settled: Settled| Some(Settled { late: expired, ..settled });
        let failure = match answer {
            Ok(appended) => {
                self.established |= batch.numbered.map(|(identity, _)| identity) == self.identity;
                self.gaps.retain(|gap| *gap > batch.order);
                return late(batch.settle(Ok(appended)));
            }
            Err(failure) => failure,
        };
        let kind = match failure.kind {
            // The transaction has to be aborted, which sets the sequences right.
            FailureKind::UnknownIdentity if rules.transactional => FailureKind::Unknown,
            FailureKind::OutOfOrder if rules.transactional && !self.has_older(batch.order) => FailureKind::Unknown,
            kind => kind,
        };
        let may_pass = match kind {
            FailureKind::Retriable => true,
            FailureKind::Refused => {
                self.forget_sequence(&batch);
                return late(batch.settle(Err(failure.error)));
            }
            FailureKind::Unknown => false,
            FailureKind::OutOfOrder => {
                // An older batch has yet to be resent: this one's turn comes after it.
                if self.has_older(batch.order) {
                    batch.attempts = batch.attempts.saturating_sub(1).max(1);
                    self.requeue(batch, failure.error);
                    return None;
                }
                // With its identity void already, it is another batch that showed why.
                let replaced = batch.numbered.map(|(identity, _)| identity) != self.identity;
                if !replaced && !self.gaps.iter().any(|gap| *gap < batch.order) {
                    // What came before it is gone from the log, though it was acknowledged (KIP-360).
                    tracing::warn!(
                        topic = &*batch.state.topic,
                        partition = batch.state.partition,
                        "the leader has lost records that were delivered: the next ones are sent under a new identity"
                    );
                }
                self.drop_identity(batch.numbered);
                batch.numbered = None;
                true
            }
            FailureKind::UnknownIdentity => {
                self.drop_identity(batch.numbered);
                batch.numbered = None;
                true
            }
        };
        if expired || !may_pass || batch.attempts > rules.retries {
            return late(self.fail(batch, failure.error));
        }
        if now >= batch.deadline {
            let error = timed_out(&batch, Some(&failure.error), rules);
            return Some(self.fail(batch, error));
        }
        tracing::debug!(
            topic = &*batch.state.topic,
            partition = batch.state.partition,
            records = batch.count,
            attempts = batch.attempts,
            error = %failure.error,
            "a batch is sent again"
        );
        self.retry_at = Some(now + backoff(rules, batch.attempts));
        self.requeue(batch, failure.error);
        None
    }

    /// Puts the pieces of a batch that was taken, and found too large, in its place. They carry its numbers on.
    pub(crate) fn split(&mut self, order: u64, pieces: Vec<Batch>) -> Vec<Settled> {
        let expired = self.landed(order);
        let mut settled = Vec::new();
        for piece in pieces {
            if expired {
                // The records have their error already; this only gives the memory back.
                let error = piece.cause.clone().unwrap_or_else(|| Error::closed("the producer"));
                settled.push(Settled { late: true, ..self.fail(piece, error) });
            } else {
                self.insert(piece);
            }
        }
        settled
    }

    /// Returns whether a batch in flight has run out of time, so that its records have their error.
    pub(crate) fn has_expired(&self, order: u64) -> bool {
        self.in_flight.iter().any(|sent| sent.order == order && sent.expired)
    }

    fn landed(&mut self, order: u64) -> bool {
        let at = self.in_flight.iter().position(|sent| sent.order == order);
        at.and_then(|at| self.in_flight.remove(at)).is_some_and(|sent| sent.expired)
    }

    fn has_older(&self, order: u64) -> bool {
        self.waiting.front().is_some_and(|batch| batch.order < order)
            || self.in_flight.iter().any(|sent| sent.order < order)
    }

    fn requeue(&mut self, mut batch: Batch, cause: Error) {
        batch.cause = Some(cause);
        self.insert(batch);
    }

    fn insert(&mut self, batch: Batch) {
        let at = self.waiting.partition_point(|other| other.order < batch.order);
        self.waiting.insert(at, batch);
    }

    /// The sequences of the batch and of those behind it are void, unless a new identity is in place already.
    fn drop_identity(&mut self, numbered: Option<(Identity, i32)>) {
        if numbered.map(|(identity, _)| identity) == self.identity {
            self.spent = self.identity.take();
            self.gaps.clear();
        }
    }

    /// The last batch numbered was certainly not appended: its numbers are free again, and there is no gap.
    fn forget_sequence(&mut self, batch: &Batch) {
        let Some((identity, sequence)) = batch.numbered else { return };
        let is_last = self.identity == Some(identity) && advance(sequence, batch.count) == self.next_sequence;
        if is_last && batch.attempts == 1 && self.in_flight.is_empty() {
            self.next_sequence = sequence;
        } else {
            self.note_gap(batch);
        }
    }

    fn note_gap(&mut self, batch: &Batch) {
        if batch.numbered.is_some_and(|(identity, _)| Some(identity) == self.identity) {
            self.gaps.push(batch.order);
        }
    }

    fn fail(&mut self, batch: Batch, error: Error) -> Settled {
        self.note_gap(&batch);
        batch.settle(Err(error))
    }

    /// Forgets identity and sequences: the next batch is the first of another epoch.
    pub(crate) fn restart(&mut self) {
        self.identity = None;
        self.established = false;
        self.gaps.clear();
        self.spent = None;
    }
}

/// Exponential from `retry.backoff.ms` to `retry.backoff.max.ms`, with 20 % jitter.
fn backoff(rules: &Rules, attempts: u32) -> Duration {
    let doubled = rules.backoff.saturating_mul(1_u32 << attempts.saturating_sub(1).min(16));
    doubled.min(rules.backoff_max).mul_f64(0.8 + 0.4 * fastrand::f64())
}
