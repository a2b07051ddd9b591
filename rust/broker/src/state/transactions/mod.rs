//! The transaction coordinator: who may write under a transactional id, and which transaction is open.
//!
//! No sockets and no waiting in it, as in groups: time comes in, what is to be written to partitions goes out.

pub(crate) mod driver;
pub(crate) mod transaction;

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use crate::options::TransactionOptions;
use transaction::{Ended, Identity, NewId, Phase, Place, Transaction};

/// As far as anything here looks ahead; a longer time would overflow the clock.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// From this version of transactions on, epochs rise with each end (KIP-890).
const FIRST_WITH_BUMPS: i16 = 2;

/// A moment, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) at: Instant,
    /// In milliseconds since 1970.
    pub(crate) ms: i64,
}

/// The end of a transaction that is to be passed on to its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) transactional_id: String,
    pub(crate) producer: Identity,
    pub(crate) committed: bool,
    pub(crate) coordinator_epoch: i32,
    /// Its epoch was raised for this end.
    pub(crate) bumps: bool,
    pub(crate) partitions: Vec<Place>,
}

/// What a producer asks for at its start.
#[derive(Debug)]
pub(crate) struct Init<'a> {
    pub(crate) transactional_id: &'a str,
    pub(crate) timeout_ms: i32,
    /// Who it was, where it goes on after an error.
    pub(crate) was: Option<Identity>,
}

/// Every transactional id.
#[derive(Debug)]
pub(crate) struct Transactions {
    options: TransactionOptions,
    by_id: BTreeMap<String, Transaction>,
}

impl Transactions {
    pub(crate) fn new(options: &TransactionOptions) -> Self {
        let options = TransactionOptions {
            max_timeout: options.max_timeout.min(LONGEST),
            marker_delay: options.marker_delay.min(LONGEST),
            id_expiration: options.id_expiration.min(LONGEST),
            ..options.clone()
        };
        Transactions { options, by_id: BTreeMap::new() }
    }

    /// The level of the feature `transaction.version`.
    pub(crate) fn version(&self) -> i16 {
        self.options.version
    }

    /// Changes it.
    pub(crate) fn set_version(&mut self, version: i16) {
        self.options.version = version;
    }

    /// Whether the broker itself ends transactions under new epochs.
    fn bumps(&self) -> bool {
        self.options.version >= FIRST_WITH_BUMPS
    }

    fn find(&mut self, transactional_id: &str) -> Result<&mut Transaction, ErrorCode> {
        if transactional_id.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        self.by_id.get_mut(transactional_id).ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)
    }

    /// A producer starts, or goes on after an error. Where a transaction is open it is aborted first, and the producer
    /// has to ask again.
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

    /// Aborts an open transaction under a new epoch.
    fn abort(&mut self, now: Now, transactional_id: &str) {
        let (bumps, due) = (self.bumps(), now.at + self.options.marker_delay);
        if let Some(transaction) = self.by_id.get_mut(transactional_id) {
            transaction.fence(now.at, bumps);
            transaction.due = Some(due);
        }
    }

    /// Fences anyone who writes under a transactional id, as an administrator does: its transaction is aborted, and its epoch
    /// is an old one from now on.
    pub(crate) fn fence(&mut self, now: Now, transactional_id: &str, new_id: NewId<'_>) -> Result<(), ErrorCode> {
        let transaction = self.by_id.get_mut(transactional_id).ok_or(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND)?;
        match transaction.phase {
            Phase::Ongoing => {
                self.abort(now, transactional_id);
                // Its producer must not learn of the new epoch by asking for it.
                if let Some(transaction) = self.by_id.get_mut(transactional_id) {
                    transaction.seal();
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

    /// Makes partitions part of a transaction, which begins with the first of them.
    pub(crate) fn add(
        &mut self,
        now: Now,
        transactional_id: &str,
        producer: Identity,
        partitions: impl IntoIterator<Item = Place>,
    ) -> Result<(), ErrorCode> {
        let transaction = self.find(transactional_id)?;
        transaction.check(producer)?;
        transaction.add(now, partitions);
        Ok(())
    }

    /// Whether a partition is part of a producer's transaction (KIP-890).
    pub(crate) fn verify(
        &mut self,
        transactional_id: &str,
        producer: Identity,
        partition: &Place,
    ) -> Result<(), ErrorCode> {
        let transaction = self.find(transactional_id)?;
        transaction.check(producer)?;
        let is_in = transaction.phase == Phase::Ongoing && transaction.partitions.contains(partition);
        if is_in { Ok(()) } else { Err(ErrorCode::TRANSACTION_ABORTABLE) }
    }

    /// A producer ends its transaction; who it is from now on.
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

    /// What is to be passed on to partitions; also what was tried and is not done.
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

    /// These partitions know of the end; with the last of them the transaction is complete.
    pub(crate) fn told(&mut self, now: Now, transactional_id: &str, partitions: &[Place]) {
        let Some(transaction) = self.by_id.get_mut(transactional_id) else { return };
        for partition in partitions {
            transaction.partitions.remove(partition);
        }
        if transaction.partitions.is_empty() && transaction.phase.is_ending() {
            transaction.complete(now.at);
        }
    }

    /// A transactional id, if it is known.
    pub(crate) fn get(&self, transactional_id: &str) -> Option<&Transaction> {
        self.by_id.get(transactional_id)
    }

    /// Every transactional id, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Transaction)> {
        self.by_id.iter().map(|(id, transaction)| (id.as_str(), transaction))
    }

    /// The coordinator of a transactional id is another node now.
    pub(crate) fn reload(&mut self, transactional_id: &str) {
        if let Some(transaction) = self.by_id.get_mut(transactional_id) {
            transaction.coordinator_epoch = transaction.coordinator_epoch.saturating_add(1);
        }
    }

    /// When [`Transactions::tick`] or [`Transactions::endings`] has something to do next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let of_one = |transaction: &Transaction| {
            let expires = (!transaction.phase.is_ending() && transaction.phase != Phase::Ongoing)
                .then(|| transaction.at + self.options.id_expiration);
            [transaction.times_out_at(), transaction.due, expires].into_iter().flatten().min()
        };
        self.by_id.values().filter_map(of_one).min()
    }

    /// Aborts what was open for too long, and forgets ids that nobody used for long.
    pub(crate) fn tick(&mut self, now: Now) {
        let late = |(id, transaction): (&String, &Transaction)| {
            transaction.times_out_at().is_some_and(|end| end <= now.at).then(|| id.clone())
        };
        let late: Vec<String> = self.by_id.iter().filter_map(late).collect();
        for id in late {
            tracing::debug!(transactional_id = id, "aborts a transaction that was open for too long");
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
