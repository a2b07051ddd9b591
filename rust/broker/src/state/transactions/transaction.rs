//! State of one transactional id: its producer, and its open or ending transaction.

use std::collections::BTreeSet;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use super::Now;

/// Transaction states, with Kafka's names and order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Empty,
    Ongoing,
    PrepareCommit,
    PrepareAbort,
    CompleteCommit,
    CompleteAbort,
}

impl Phase {
    pub(crate) const ALL: [Phase; 6] = [
        Phase::Empty,
        Phase::Ongoing,
        Phase::PrepareCommit,
        Phase::PrepareAbort,
        Phase::CompleteCommit,
        Phase::CompleteAbort,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Empty => "Empty",
            Phase::Ongoing => "Ongoing",
            Phase::PrepareCommit => "PrepareCommit",
            Phase::PrepareAbort => "PrepareAbort",
            Phase::CompleteCommit => "CompleteCommit",
            Phase::CompleteAbort => "CompleteAbort",
        }
    }

    /// Returns true if the transaction is committed or aborted but not all markers are written.
    pub(crate) fn is_ending(self) -> bool {
        matches!(self, Phase::PrepareCommit | Phase::PrepareAbort)
    }
}

/// Producer id and epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

pub(super) const NO_EPOCH: i16 = -1;
const NO_ID: i64 = -1;
/// Last epoch that is assigned to a producer. The coordinator needs the next epoch to fence the producer.
const LAST_EPOCH: i16 = i16::MAX - 1;

/// Topic name and index of a partition in a transaction, possibly of `__consumer_offsets`.
pub(crate) type TopicPartition = (String, i32);

#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) producer: Identity,
    /// Previous epoch, if the producer itself requested the bump, otherwise [`NO_EPOCH`]. A request with this epoch is
    /// a repeated request.
    last_epoch: i16,
    /// Previous producer id, if the id was replaced because its epochs were exhausted.
    previous_id: i64,
    /// Next producer id, which replaces the current id after all markers are written.
    next_id: Option<i64>,
    /// True if the end of the last transaction bumped the producer epoch (KIP-890).
    pub(super) bumps: bool,
    pub(crate) timeout: Duration,
    pub(crate) phase: Phase,
    pub(crate) partitions: BTreeSet<TopicPartition>,
    /// Time at which the transaction began.
    pub(crate) begun: Option<Now>,
    /// Time of the last state change.
    pub(super) at: Instant,
    /// Coordinator epoch, bumped when the coordinator moves to another node.
    pub(super) coordinator_epoch: i32,
    /// Earliest time to write the markers; `None` if writing has started.
    pub(super) due: Option<Instant>,
}

/// Returns true if the epoch cannot be bumped further.
fn is_exhausted(epoch: i16) -> bool {
    epoch >= LAST_EPOCH
}

/// Function that allocates a producer id. Producers without a transactional id use the same sequence of ids.
pub(super) type NewId<'a> = &'a dyn Fn() -> i64;

impl Transaction {
    pub(super) fn new(now: Instant, id: i64) -> Self {
        Transaction {
            producer: Identity { id, epoch: NO_EPOCH },
            last_epoch: NO_EPOCH,
            previous_id: NO_ID,
            next_id: None,
            bumps: false,
            timeout: Duration::ZERO,
            phase: Phase::Empty,
            partitions: BTreeSet::new(),
            begun: None,
            at: now,
            coordinator_epoch: 0,
            due: None,
        }
    }

    /// Initializes the producer. `was` is the producer id and epoch of a producer that requests an epoch bump after an
    /// error (KIP-360).
    pub(super) fn init(
        &mut self,
        now: Instant,
        timeout: Duration,
        was: Option<Identity>,
        new_id: NewId<'_>,
    ) -> Result<Identity, ErrorCode> {
        // The last condition accepts a repeated request: the response with the new producer id was lost, so the
        // producer still has the previous id and its exhausted epoch.
        let is_current_or_previous = |was: Identity| {
            self.producer.epoch == NO_EPOCH
                || was.id == self.producer.id
                || (was.id == self.previous_id && is_exhausted(was.epoch))
        };
        if !was.is_none_or(is_current_or_previous) {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        match self.phase {
            Phase::PrepareCommit | Phase::PrepareAbort => return Err(ErrorCode::CONCURRENT_TRANSACTIONS),
            Phase::Ongoing => return Err(ErrorCode::CONCURRENT_TRANSACTIONS),
            Phase::Empty | Phase::CompleteCommit | Phase::CompleteAbort => {}
        }
        let epoch = self.producer.epoch;
        if is_exhausted(epoch) && was.is_none_or(|was| was.epoch == epoch) {
            self.previous_id = self.producer.id;
            self.last_epoch = if was.is_some() { epoch } else { NO_EPOCH };
            self.producer = Identity { id: new_id(), epoch: 0 };
        } else {
            match was {
                None => self.last_epoch = NO_EPOCH,
                Some(was) if epoch == NO_EPOCH || was.epoch == epoch => self.last_epoch = epoch,
                // The producer repeats its request because the response was lost. A new producer instance would have
                // reset `last_epoch`.
                Some(was) if was.epoch == self.last_epoch => return Ok(self.producer),
                Some(_) => return Err(ErrorCode::PRODUCER_FENCED),
            }
            self.producer.epoch = epoch.saturating_add(1);
        }
        self.phase = Phase::Empty;
        self.timeout = timeout;
        self.begun = None;
        self.at = now;
        Ok(self.producer)
    }

    /// Checks that `producer` is the current producer of this transactional id.
    pub(super) fn check(&self, producer: Identity) -> Result<(), ErrorCode> {
        if self.phase.is_ending() && self.next_id == Some(producer.id) {
            // The producer already uses its next id, which takes effect only after all markers are written.
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        if producer.id != self.producer.id {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
        if producer.epoch != self.producer.epoch {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        if self.phase.is_ending() {
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        Ok(())
    }

    /// Adds partitions to the transaction, and begins a transaction if none is open.
    pub(super) fn add(&mut self, now: Now, partitions: impl IntoIterator<Item = TopicPartition>) {
        if self.phase != Phase::Ongoing {
            self.phase = Phase::Ongoing;
            self.begun = Some(now);
            self.partitions.clear();
        }
        self.partitions.extend(partitions);
        self.at = now.at;
    }

    /// Ends the transaction at the request of the client. With `bumps`, the client expects a new epoch, and may also
    /// abort when no transaction is open. Returns the producer id and epoch for the next transaction.
    pub(super) fn end(
        &mut self,
        now: Now,
        producer: Identity,
        committed: bool,
        bumps: bool,
        new_id: NewId<'_>,
    ) -> Result<Ended, ErrorCode> {
        let current = self.producer;
        // If the response was lost, the client repeats the request with the previous epoch, or with the last epoch of
        // the previous id.
        let repeated = bumps && self.bumps && current.epoch.checked_sub(1) == Some(producer.epoch);
        let repeated_at_last =
            bumps && self.previous_id == producer.id && producer.epoch == LAST_EPOCH && current.epoch == 0;
        let is_current = producer.epoch == current.epoch;
        let valid = match self.phase {
            _ if !bumps => is_current,
            Phase::Ongoing | Phase::Empty => is_current,
            Phase::PrepareCommit | Phase::PrepareAbort => repeated,
            Phase::CompleteCommit | Phase::CompleteAbort => repeated || repeated_at_last || is_current,
        };
        if producer.id != current.id && !repeated_at_last {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
        if !valid {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        let is_repeated = repeated || repeated_at_last || !bumps;
        match (self.phase, committed) {
            (Phase::Ongoing, _) => {}
            (Phase::PrepareCommit, true) | (Phase::PrepareAbort, false) => {
                return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
            }
            (Phase::CompleteCommit, true) | (Phase::CompleteAbort, false) if is_repeated => {
                return Ok(Ended::Before(current));
            }
            // An abort is accepted without an open transaction, to bump the epoch.
            (Phase::CompleteCommit | Phase::CompleteAbort, false) if bumps && !is_repeated => {}
            (Phase::Empty, false) if bumps => {}
            _ => return Err(ErrorCode::INVALID_TXN_STATE),
        }
        if self.phase != Phase::Ongoing {
            self.begun = Some(now);
            self.partitions.clear();
        }
        let next_id = (bumps && is_exhausted(current.epoch)).then(new_id);
        if bumps {
            self.last_epoch = current.epoch;
            self.producer.epoch = current.epoch.saturating_add(1);
        }
        self.bumps = bumps;
        self.next_id = next_id;
        self.phase = if committed { Phase::PrepareCommit } else { Phase::PrepareAbort };
        self.at = now.at;
        Ok(Ended::Now(next_id.map_or(self.producer, |id| Identity { id, epoch: 0 })))
    }

    /// Aborts an open transaction and bumps the epoch, which fences the producer. With `bumps`, the producer cannot
    /// distinguish this abort from its own EndTxn: if it repeats EndTxn, it gets the new epoch and can continue.
    pub(super) fn fence(&mut self, now: Instant, bumps: bool) {
        self.last_epoch = if bumps { self.producer.epoch } else { NO_EPOCH };
        self.producer.epoch = self.producer.epoch.saturating_add(1);
        self.bumps = bumps;
        self.phase = Phase::PrepareAbort;
        self.at = now;
    }

    /// Prevents the fenced producer from obtaining the new epoch by repeating its request.
    pub(super) fn hide_epoch(&mut self) {
        self.last_epoch = NO_EPOCH;
        self.bumps = false;
    }

    /// Completes the transaction; called after all markers are written.
    pub(super) fn complete(&mut self, now: Instant) {
        self.phase = if self.phase == Phase::PrepareCommit { Phase::CompleteCommit } else { Phase::CompleteAbort };
        if let Some(id) = self.next_id.take() {
            self.previous_id = self.producer.id;
            self.producer = Identity { id, epoch: 0 };
        }
        self.due = None;
        self.at = now;
    }

    /// Returns the time at which the coordinator aborts the transaction because of its timeout.
    pub(super) fn times_out_at(&self) -> Option<Instant> {
        let begun = self.begun.filter(|_| self.phase == Phase::Ongoing)?;
        Some(begun.at + self.timeout)
    }
}

/// Result of EndTxn, with the producer id and epoch for the next transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// This request has ended the transaction, so the markers must be written.
    Now(Identity),
    /// An earlier request has ended the transaction.
    Before(Identity),
}
