//! Queue of one partition's batches (open, waiting, in flight), and the rules that keep batches in order and prevent
//! duplicates.
//!
//! With idempotence, each batch contains the producer ID, the epoch and the sequence of its first record. The broker
//! accepts a batch only if its sequence follows the last batch. Therefore a batch that fails with a retriable error
//! returns to its position and keeps its sequence. While the oldest batch is a resend, no other batch is in flight, so
//! that the response shows whether the batch was appended.
//!
//! A broker without state of a producer ID accepts any first sequence. Therefore, until a leader has appended a batch,
//! the oldest batch is sent alone too. Otherwise, if it were rejected temporarily (for example because the leader of a
//! new topic is not ready yet), the broker would accept the next batch, and the oldest batch could never be appended.
//!
//! A batch that was certainly not appended, for example because it is too large, releases its sequences to the batches
//! behind it if none of them may have been appended. Any other batch that fails permanently leaves a gap in the
//! sequences. Later batches are first sent with their old sequences,
//! because the failed batch may have been appended although its response was lost. If the broker then reports the gap,
//! none of the later batches was appended, and they get new sequences in another epoch.

mod expiry;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::expiry::timed_out;
use super::batch::{Batch, BatchResult, ProducerIdAndEpoch, advance};
use super::delivery_state::{Appended, BatchState};
use crate::defects::Defect;
use crate::error::Error;

/// Number of batches per partition that a broker remembers for an idempotent producer.
pub(crate) const MAX_IDEMPOTENT_IN_FLIGHT: usize = 5;
/// No node has this ID.
const NO_NODE: i32 = -1;

/// Delivery settings of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) idempotent: bool,
    /// True for a transactional producer, whose producer ID no queue may change.
    pub(crate) transactional: bool,
    pub(crate) linger: Duration,
    /// True if batches linger only behind an earlier request, because the application did not set `linger.ms`.
    pub(crate) adaptive_linger: bool,
    pub(crate) retries: u32,
    pub(crate) backoff: Duration,
    pub(crate) backoff_max: Duration,
    pub(crate) delivery_timeout: Duration,
    /// Option `client.id`, for log lines.
    pub(crate) client_id: Arc<str>,
}

/// Readiness of a queue to send a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// The queue has no batch to send.
    Idle,
    /// No batch can be sent before a response or another event that wakes the sender.
    Blocked,
    /// No batch can be sent before this time.
    At(Instant),
    /// The batch lingers until the given time, but may be sent together with other batches of its broker.
    Lingering(Instant),
    /// A batch is due.
    Ready,
}

/// Failure of one attempt to send a batch.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) kind: FailureKind,
    /// Errors of single records by index in the batch (KIP-467); `error` applies to the other records.
    pub(crate) records: BTreeMap<u32, Error>,
}

impl Failure {
    /// Creates a failure with one error for all records.
    pub(crate) fn new(error: Error, kind: FailureKind) -> Self {
        Self { error, kind, records: BTreeMap::new() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The error is retriable, and the batch may have been appended.
    Retriable,
    /// The error is permanent, and the batch was not appended.
    Rejected,
    /// The error is permanent, and the batch may have been appended.
    Unknown,
    /// The sequence does not follow the last appended batch, so this batch was not appended.
    OutOfOrder,
    /// The broker does not know the producer ID, or knows a newer epoch, so the batch was not appended.
    UnknownProducerId,
}

#[derive(Debug)]
struct InFlightBatch {
    order: u64,
    deadline: Instant,
    expired: bool,
    state: Arc<BatchState>,
    first: u32,
    count: u32,
}

/// Batches of one partition.
#[derive(Debug, Default)]
pub(crate) struct PartitionQueue {
    /// Batch that accepts further records.
    pub(crate) open: Option<Batch>,
    /// True if the partition is in the list of partitions that the sender drains.
    pub(crate) active: bool,
    /// Node ID of the partition leader, if known.
    pub(crate) leader: Option<i32>,
    waiting: VecDeque<Batch>,
    in_flight: VecDeque<InFlightBatch>,
    in_flight_node: i32,
    retry_at: Option<Instant>,
    identity: Option<ProducerIdAndEpoch>,
    /// True once the leader has appended a batch of `identity`, and therefore checks the sequences of later batches.
    established: bool,
    next_sequence: i32,
    /// Orders of batches that failed permanently while the broker may expect their sequences.
    gaps: Vec<u64>,
    /// Producer ID and epoch whose sequences are invalid in this partition. The next batch needs another epoch.
    pub(crate) invalid_identity: Option<ProducerIdAndEpoch>,
    records: u64,
}

impl PartitionQueue {
    /// Returns the order of the next batch.
    pub(crate) fn next_order(&self) -> u64 {
        self.records
    }

    /// Counts added records, which determine the order of the next batch.
    pub(crate) fn add_records(&mut self, count: u32) {
        self.records += u64::from(count);
    }

    /// Closes the open batch and queues it for sending.
    pub(crate) fn close_open(&mut self) {
        if let Some(batch) = self.open.take() {
            self.push(batch);
        }
    }

    /// Queues a batch behind all other batches.
    pub(crate) fn push(&mut self, batch: Batch) {
        batch.state.close(batch.first + batch.count);
        self.waiting.push_back(batch);
    }

    /// Returns the number of batches that wait to be sent.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len() + usize::from(self.open.is_some())
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_none() && self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// Returns true if the queue has no producer ID for its next batch.
    pub(crate) fn needs_identity(&self) -> bool {
        self.identity.is_none()
    }

    /// Returns whether a batch may be sent now; `force` ignores `linger.ms`.
    pub(crate) fn readiness(&self, now: Instant, rules: &Rules, force: bool) -> Readiness {
        let Some(front) = self.waiting.front().or(self.open.as_ref()) else { return Readiness::Idle };
        // The backoff applies to the failed batch. Once that batch has left the queue, later batches do not wait.
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

    /// Prepares the queue for a recreated topic. Its first batch is sent once all batches in flight to the old topic
    /// have results: if they are sent again, they precede it.
    pub(crate) fn recreated(&mut self) {
        self.leader = None;
        self.in_flight_node = NO_NODE;
    }

    /// Returns the size of the batch that [`take`](Self::take) would return.
    pub(crate) fn front_size(&self) -> usize {
        self.waiting.front().or(self.open.as_ref()).map_or(0, Batch::size)
    }

    /// Takes the oldest batch, assigns its sequence and marks it as in flight to `node`.
    pub(crate) fn take(&mut self, node: i32, rules: &Rules, identity: Option<ProducerIdAndEpoch>) -> Option<Batch> {
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
        self.in_flight.push_back(InFlightBatch {
            order: batch.order,
            deadline: batch.deadline,
            expired: false,
            state: Arc::clone(&batch.state),
            first: batch.first,
            count: batch.count,
        });
        Some(batch)
    }

    /// Handles the result of an attempt to send a batch. Returns `None` if the batch is requeued for another attempt.
    pub(crate) fn handle_result(
        &mut self,
        mut batch: Batch,
        outcome: std::result::Result<Appended, Failure>,
        rules: &Rules,
        now: Instant,
    ) -> Option<BatchResult> {
        let expired = self.remove_in_flight(batch.order);
        let late = |result: BatchResult| Some(BatchResult { late: expired, ..result });
        let failure = match outcome {
            Ok(appended) => {
                self.established |= batch.numbered.map(|(identity, _)| identity) == self.identity;
                self.gaps.retain(|gap| *gap > batch.order);
                return late(batch.complete(Ok(appended)));
            }
            Err(failure) => failure,
        };
        let kind = match failure.kind {
            // The transaction must be aborted, which resets the sequences.
            FailureKind::UnknownProducerId if rules.transactional => FailureKind::Unknown,
            FailureKind::OutOfOrder if rules.transactional && !self.has_older(batch.order) => FailureKind::Unknown,
            kind => kind,
        };
        // True if the batch was certainly not appended, only because another batch left a gap before it.
        let mut displaced = false;
        let retriable = match kind {
            FailureKind::Retriable => {
                batch.maybe_appended = true;
                true
            }
            FailureKind::Rejected => {
                self.release_sequence(&batch);
                return late(batch.complete(Err(failure.error)));
            }
            FailureKind::Unknown => false,
            FailureKind::OutOfOrder => {
                // An older batch must be resent first.
                if self.has_older(batch.order) {
                    batch.attempts = batch.attempts.saturating_sub(1).max(1);
                    self.requeue(batch, failure.error);
                    return None;
                }
                // If the producer ID is already invalid, another batch has revealed the cause.
                let replaced = batch.numbered.map(|(identity, _)| identity) != self.identity;
                displaced = replaced || self.gaps.iter().any(|gap| *gap < batch.order);
                if !displaced {
                    // The preceding records are missing from the log, though they were acknowledged (KIP-360).
                    tracing::warn!(
                        client_id = &*rules.client_id,
                        "partition {}-{}: the leader has lost delivered records. Further records are sent in a new \
                         producer epoch",
                        batch.state.topic,
                        batch.state.partition
                    );
                }
                self.invalidate_identity(batch.numbered);
                batch.numbered = None;
                true
            }
            FailureKind::UnknownProducerId => {
                self.invalidate_identity(batch.numbered);
                batch.numbered = None;
                true
            }
        };
        if expired || !retriable || batch.attempts > rules.retries {
            return late(self.fail(batch, failure.error));
        }
        if now >= batch.deadline {
            let error = timed_out(&batch, Some(&failure.error), rules);
            return Some(self.fail(batch, error));
        }
        // The next attempt of a displaced batch has another epoch, so the reason for this failure is gone.
        let delay = if displaced { Duration::ZERO } else { backoff(rules, batch.attempts) };
        tracing::debug!(
            client_id = &*rules.client_id,
            attempt = batch.attempts,
            retry_after = ?delay,
            "partition {}-{}: a batch of {} records is sent again: {}",
            batch.state.topic,
            batch.state.partition,
            batch.count,
            failure.error
        );
        self.retry_at = Some(now + delay);
        self.requeue(batch, failure.error);
        None
    }

    /// Replaces an in-flight batch that was too large with its parts. Records keep their sequence numbers.
    pub(crate) fn split(&mut self, order: u64, parts: Vec<Batch>) -> Vec<BatchResult> {
        let expired = self.remove_in_flight(order);
        let mut results = Vec::new();
        for part in parts {
            if expired {
                // The records already have their error; this result only releases their memory.
                let error = part.cause.clone().unwrap_or_else(|| Error::closed("the producer"));
                results.push(BatchResult { late: true, ..self.fail(part, error) });
            } else {
                self.insert(part);
            }
        }
        results
    }

    /// Returns true if the in-flight batch with this `order` has expired. Its records have then already failed.
    pub(crate) fn is_expired(&self, order: u64) -> bool {
        self.in_flight.iter().any(|sent| sent.order == order && sent.expired)
    }

    fn remove_in_flight(&mut self, order: u64) -> bool {
        let at = self.in_flight.iter().position(|sent| sent.order == order);
        at.and_then(|at| self.in_flight.remove(at)).is_some_and(|sent| sent.expired)
    }

    fn has_older(&self, order: u64) -> bool {
        self.waiting.front().is_some_and(|batch| batch.order < order)
            || self.in_flight.iter().any(|sent| sent.order < order)
    }

    fn requeue(&mut self, mut batch: Batch, cause: Error) {
        batch.cause = Some(cause);
        if Defect::NewSequence.is_on() {
            batch.numbered = None;
        }
        self.insert(batch);
    }

    fn insert(&mut self, batch: Batch) {
        let before = |other: &Batch| other.order < batch.order || Defect::RequeuedBehind.is_on();
        let at = self.waiting.partition_point(before);
        self.waiting.insert(at, batch);
    }

    /// Invalidates the epoch and the sequences of this batch and its successors, unless the queue already has another
    /// epoch.
    fn invalidate_identity(&mut self, numbered: Option<(ProducerIdAndEpoch, i32)>) {
        if numbered.map(|(identity, _)| identity) == self.identity {
            self.invalid_identity = self.identity.take();
            self.gaps.clear();
        }
    }

    /// Makes the sequences of a rejected batch available again, if the batch and all batches behind it were certainly
    /// not appended. Batches behind it then get the next sequences when they are sent. Otherwise records a gap.
    fn release_sequence(&mut self, batch: &Batch) {
        let Some((identity, sequence)) = batch.numbered else { return };
        let behind = |other: &Batch| other.order > batch.order;
        let released = self.identity == Some(identity)
            && self.in_flight.is_empty()
            && !batch.maybe_appended
            && !self.waiting.iter().any(|other| behind(other) && other.maybe_appended);
        if !released {
            return self.record_gap(batch);
        }
        self.next_sequence = sequence;
        for other in self.waiting.iter_mut().filter(|other| behind(other)) {
            other.numbered = None;
        }
    }

    fn record_gap(&mut self, batch: &Batch) {
        if batch.numbered.is_some_and(|(identity, _)| Some(identity) == self.identity) {
            self.gaps.push(batch.order);
        }
    }

    fn fail(&mut self, batch: Batch, error: Error) -> BatchResult {
        self.record_gap(&batch);
        batch.complete(Err(error))
    }

    /// Resets the producer ID and sequences, because the next batch is the first batch of another epoch.
    pub(crate) fn reset_sequences(&mut self) {
        self.identity = None;
        self.established = false;
        self.gaps.clear();
        self.invalid_identity = None;
    }
}

/// Returns the delay before the next attempt: exponential from `retry.backoff.ms` to `retry.backoff.max.ms`, with 20 %
/// jitter.
fn backoff(rules: &Rules, attempts: u32) -> Duration {
    let doubled = rules.backoff.saturating_mul(1_u32 << attempts.saturating_sub(1).min(16));
    doubled.min(rules.backoff_max).mul_f64(0.8 + 0.4 * fastrand::f64())
}
