//! Transaction coordinator: producers and their transactions, by transactional id.
//!
//! This module does no I/O and does not wait: the current time is an argument, and the caller writes the markers that
//! it returns.

pub(crate) mod driver;
pub(crate) mod transaction;

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use crate::options::TransactionOptions;
use transaction::{Ended, Identity, NewId, Phase, TopicPartition, Transaction};

/// Upper limit of all timeouts. It prevents an overflow of `Instant`.
const MAX_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// First transaction version in which ending a transaction always bumps the producer epoch (KIP-890).
const FIRST_WITH_BUMPS: i16 = 2;

/// Current time of the monotonic clock and of the wall clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) at: Instant,
    /// Milliseconds since 1970.
    pub(crate) ms: i64,
}

/// End of a transaction, for which markers must be written to its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) transactional_id: String,
    pub(crate) producer: Identity,
    pub(crate) committed: bool,
    pub(crate) coordinator_epoch: i32,
    /// True if this end has bumped the producer epoch.
    pub(crate) bumps: bool,
    pub(crate) partitions: Vec<TopicPartition>,
}

/// Parameters of an InitProducerId request.
#[derive(Debug)]
pub(crate) struct Init<'a> {
    pub(crate) transactional_id: &'a str,
    pub(crate) timeout_ms: i32,
    /// Previous producer id and epoch, if the producer recovers from an error.
    pub(crate) was: Option<Identity>,
}

/// All transactional ids.
#[derive(Debug)]
pub(crate) struct Transactions {
    options: TransactionOptions,
    by_id: BTreeMap<String, Transaction>,
}

impl Transactions {
    pub(crate) fn new(options: &TransactionOptions) -> Self {
        let options = TransactionOptions {
            max_timeout: options.max_timeout.min(MAX_TIMEOUT),
            marker_delay: options.marker_delay.min(MAX_TIMEOUT),
            id_expiration: options.id_expiration.min(MAX_TIMEOUT),
            ..options.clone()
        };
        Transactions { options, by_id: BTreeMap::new() }
    }

    /// Returns the level of the feature `transaction.version`.
    pub(crate) fn version(&self) -> i16 {
        self.options.version
    }

    /// Sets the level of the feature `transaction.version`.
    pub(crate) fn set_version(&mut self, version: i16) {
        self.options.version = version;
    }

    /// Returns true if the coordinator bumps the producer epoch when it aborts a transaction.
    fn bumps(&self) -> bool {
        self.options.version >= FIRST_WITH_BUMPS
    }

    fn find(&mut self, transactional_id: &str) -> Result<&mut Transaction, ErrorCode> {
        if transactional_id.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        self.by_id.get_mut(transactional_id).ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)
    }

    /// Initializes a producer, or bumps its epoch after an error. If a transaction is open, aborts it and fails with
    /// CONCURRENT_TRANSACTIONS, so that the producer retries.
    pub(crate) fn init(&mut self, now: Now, init: &Init<'_>, new_id: NewId<'_>) -> Result<Identity, ErrorCode> {
        if init.transactional_id.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        let timeout = Duration::from_millis(u64::try_from(init.timeout_ms).unwrap_or_default());
        if timeout.is_zero() || timeout > self.options.max_timeout {
            return Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT);
        }
        let new = || Transaction::new(now.at, new_id());
        let transaction = self.by_id.entry(init.transactional_id.to_owned()).or_insert_with(new);
        let was_open = transaction.phase == Phase::Ongoing;
        let started = transaction.init(now.at, timeout, init.was, new_id);
        if was_open && started == Err(ErrorCode::CONCURRENT_TRANSACTIONS) {
            self.abort(now, init.transactional_id);
        }
        started
    }

    /// Aborts an open transaction with a bumped epoch.
    fn abort(&mut self, now: Now, transactional_id: &str) {
        let (bumps, due) = (self.bumps(), now.at + self.options.marker_delay);
        if let Some(transaction) = self.by_id.get_mut(transactional_id) {
            transaction.fence(now.at, bumps);
            transaction.due = Some(due);
        }
    }

    /// Aborts the open transaction of a transactional id, if any, and bumps its producer epoch. This fences the
    /// producer, as an administrator would.
    pub(crate) fn fence(&mut self, now: Now, transactional_id: &str, new_id: NewId<'_>) -> Result<(), ErrorCode> {
        let transaction = self.by_id.get_mut(transactional_id).ok_or(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND)?;
        match transaction.phase {
            Phase::Ongoing => {
                self.abort(now, transactional_id);
                // Hides the epoch, because the fenced producer could otherwise obtain it by repeating its request.
                if let Some(transaction) = self.by_id.get_mut(transactional_id) {
                    transaction.hide_epoch();
                }
                Ok(())
            }
            Phase::PrepareCommit | Phase::PrepareAbort => Err(ErrorCode::CONCURRENT_TRANSACTIONS),
            Phase::Empty | Phase::CompleteCommit | Phase::CompleteAbort => {
                let timeout = transaction.timeout;
                transaction.init(now.at, timeout, None, new_id).map(drop)
            }
        }
    }

    /// Adds partitions to a transaction, and begins the transaction if none is open.
    pub(crate) fn add(
        &mut self,
        now: Now,
        transactional_id: &str,
        producer: Identity,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<(), ErrorCode> {
        let transaction = self.find(transactional_id)?;
        transaction.check(producer)?;
        transaction.add(now, partitions);
        Ok(())
    }

    /// Checks that a partition is part of the producer's transaction (KIP-890).
    pub(crate) fn verify(
        &mut self,
        transactional_id: &str,
        producer: Identity,
        partition: &TopicPartition,
    ) -> Result<(), ErrorCode> {
        let transaction = self.find(transactional_id)?;
        transaction.check(producer)?;
        let is_in = transaction.phase == Phase::Ongoing && transaction.partitions.contains(partition);
        if is_in { Ok(()) } else { Err(ErrorCode::TRANSACTION_ABORTABLE) }
    }

    /// Ends a transaction at the request of its producer. Returns the producer id and epoch for the next transaction.
    pub(crate) fn end(
        &mut self,
        now: Now,
        transactional_id: &str,
        producer: Identity,
        committed: bool,
        bumps: bool,
        new_id: NewId<'_>,
    ) -> Result<Identity, ErrorCode> {
        let due = now.at + self.options.marker_delay;
        let transaction = self.find(transactional_id)?;
        match transaction.end(now, producer, committed, bumps, new_id)? {
            Ended::Now(next) => {
                transaction.due = Some(due);
                Ok(next)
            }
            Ended::Before(next) => Ok(next),
        }
    }

    /// Returns the ended transactions whose markers are due, including markers that could not be written before.
    pub(crate) fn endings(&mut self, now: Now) -> Vec<Ending> {
        let mut endings = Vec::new();
        for (id, transaction) in &mut self.by_id {
            if !transaction.phase.is_ending() || transaction.due.is_some_and(|due| due > now.at) {
                continue;
            }
            transaction.due = None;
            endings.push(Ending {
                transactional_id: id.clone(),
                producer: transaction.producer,
                committed: transaction.phase == Phase::PrepareCommit,
                coordinator_epoch: transaction.coordinator_epoch,
                bumps: transaction.bumps,
                partitions: transaction.partitions.iter().cloned().collect(),
            });
        }
        endings
    }

    /// Records that the markers of these partitions are written. When no partition remains, the transaction is
    /// complete.
    pub(crate) fn markers_written(&mut self, now: Now, transactional_id: &str, partitions: &[TopicPartition]) {
        let Some(transaction) = self.by_id.get_mut(transactional_id) else { return };
        for partition in partitions {
            transaction.partitions.remove(partition);
        }
        if transaction.partitions.is_empty() && transaction.phase.is_ending() {
            transaction.complete(now.at);
        }
    }

    /// Returns the state of a transactional id; `None` if the id is unknown.
    pub(crate) fn get(&self, transactional_id: &str) -> Option<&Transaction> {
        self.by_id.get(transactional_id)
    }

    /// Returns the states of all transactional ids, ordered by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Transaction)> {
        self.by_id.iter().map(|(id, transaction)| (id.as_str(), transaction))
    }

    /// Moves a transactional id to another coordinator.
    pub(crate) fn reload(&mut self, transactional_id: &str) {
        if let Some(transaction) = self.by_id.get_mut(transactional_id) {
            transaction.coordinator_epoch = transaction.coordinator_epoch.saturating_add(1);
        }
    }

    /// Returns the next time at which [`Transactions::tick`] or [`Transactions::endings`] must be called.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let deadline = |transaction: &Transaction| {
            let expires = (!transaction.phase.is_ending() && transaction.phase != Phase::Ongoing)
                .then(|| transaction.at + self.options.id_expiration);
            [transaction.times_out_at(), transaction.due, expires].into_iter().flatten().min()
        };
        self.by_id.values().filter_map(deadline).min()
    }

    /// Aborts transactions that have timed out, and removes expired transactional ids.
    pub(crate) fn tick(&mut self, now: Now) {
        let late = |(id, transaction): (&String, &Transaction)| {
            transaction.times_out_at().is_some_and(|end| end <= now.at).then(|| id.clone())
        };
        let late: Vec<String> = self.by_id.iter().filter_map(late).collect();
        for id in late {
            tracing::debug!(transactional_id = id, "aborting a transaction that has timed out");
            self.abort(now, &id);
        }
        let expiration = self.options.id_expiration;
        self.by_id.retain(|_, transaction| {
            let in_use = transaction.phase == Phase::Ongoing || transaction.phase.is_ending();
            in_use || now.at < transaction.at + expiration
        });
    }
}

#[cfg(test)]
mod tests;
