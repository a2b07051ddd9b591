//! Producer state of a partition: detects duplicate and missing batches of idempotent producers, and tracks open
//! transactions.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use samsarrow_wire::batch::{Batch, BatchHeader, EndMarker};
use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use super::aborted::{Aborted, AbortedIndex};
use super::batch::{last_sequence, next_sequence};
use crate::collections::HashMap;

/// Number of recent batches kept per producer, equal to the maximum number of batches in flight.
const MAX_BATCHES: usize = 5;
const NO_EPOCH: i32 = -1;

#[derive(Debug, Clone, Copy)]
struct Appended {
    first_sequence: i32,
    last_sequence: i32,
    base_offset: i64,
    append_time: i64,
}

#[derive(Debug)]
struct Producer {
    epoch: i16,
    /// Epoch of the coordinator that wrote the last marker.
    coordinator_epoch: i32,
    appended: VecDeque<Appended>,
    last_timestamp: i64,
    /// Time of the last batch or marker.
    last_used: Instant,
    /// First offset of the open transaction, if any.
    transaction: Option<i64>,
}

/// Result of the sequence check of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The batch is next in sequence.
    Append,
    /// The batch is already in the log; the response repeats the offset and time of the first append.
    Duplicate { base_offset: i64, append_time: i64 },
}

/// Producer state reported by DescribeProducers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProducerSummary {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    pub(crate) last_sequence: i32,
    pub(crate) last_timestamp: i64,
    pub(crate) coordinator_epoch: i32,
    pub(crate) transaction: Option<i64>,
}

/// State of all producers of one partition.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    by_id: HashMap<i64, Producer>,
    /// Producer ids of open transactions, by first offset of the transaction.
    open: BTreeMap<i64, i64>,
    /// Epoch and lowest base sequence of the batches that tried to begin a transaction, by producer id. A batch with a
    /// higher sequence must not begin the transaction.
    attempts: HashMap<i64, (i16, i32)>,
    pub(crate) aborted: AbortedIndex,
}

impl Producers {
    /// Returns the first offset of the oldest open transaction.
    pub(crate) fn first_open(&self) -> Option<i64> {
        self.open.first_key_value().map(|(offset, _)| *offset)
    }

    /// Returns true if the producer already has an open transaction in this partition. The coordinator then need not
    /// verify the transaction.
    pub(crate) fn has_open(&self, id: i64, epoch: i16) -> bool {
        self.by_id.get(&id).is_some_and(|known| known.transaction.is_some() && known.epoch == epoch)
    }

    /// Records that a batch is about to begin a transaction; called before the coordinator verifies the transaction
    /// (KIP-890).
    pub(crate) fn record_attempt(&mut self, header: &BatchHeader) {
        let (epoch, sequence) = (header.producer_epoch, header.base_sequence);
        let attempt = self.attempts.entry(header.producer_id).or_insert((epoch, sequence));
        if epoch > attempt.0 || (epoch == attempt.0 && sequence < attempt.1) {
            *attempt = (epoch, sequence);
        }
    }

    /// Checks the epoch and sequence of a batch by Kafka's rules. An unknown producer may begin at any sequence, unless
    /// every transaction has a new epoch (`begins_at_zero`, KIP-890).
    pub(crate) fn check(&self, header: &BatchHeader, begins_at_zero: bool) -> Result<Verdict, ErrorCode> {
        let known = self.by_id.get(&header.producer_id);
        let (epoch, sequence) = (header.producer_epoch, header.base_sequence);
        if let Some(repeated) = known.filter(|known| known.epoch == epoch).and_then(|known| {
            let same =
                |batch: &&Appended| batch.first_sequence == sequence && batch.last_sequence == last_sequence(header);
            known.appended.iter().find(same)
        }) {
            return Ok(Verdict::Duplicate { base_offset: repeated.base_offset, append_time: repeated.append_time });
        }
        if known.is_some_and(|known| epoch < known.epoch) {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        let attempt = self.attempts.get(&header.producer_id).filter(|_| header.is_transactional());
        let is_next = match known {
            None => sequence == 0 || !(begins_at_zero && header.is_transactional()),
            Some(known) if known.epoch == epoch => {
                known.appended.back().map_or(0, |last| next_sequence(last.last_sequence, 1)) == sequence
            }
            Some(_) => sequence == 0,
        };
        if !is_next || attempt.is_some_and(|(_, lowest)| sequence > *lowest) {
            return Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        }
        if known.is_some_and(|known| known.transaction.is_some()) && !header.is_transactional() {
            return Err(ErrorCode::INVALID_TXN_STATE);
        }
        Ok(Verdict::Append)
    }

    fn get_or_insert(&mut self, id: i64, epoch: i16, now: Instant) -> &mut Producer {
        let producer = self.by_id.entry(id).or_insert_with(|| Producer {
            epoch,
            coordinator_epoch: NO_EPOCH,
            appended: VecDeque::new(),
            last_timestamp: -1,
            last_used: now,
            transaction: None,
        });
        if producer.epoch != epoch {
            producer.epoch = epoch;
            producer.appended.clear();
        }
        producer.last_used = now;
        producer
    }

    /// Records an appended batch. If its producer has no open transaction, a transactional batch begins one.
    pub(crate) fn appended(&mut self, header: &BatchHeader, base_offset: i64, append_time: i64, now: Instant) {
        let producer = self.get_or_insert(header.producer_id, header.producer_epoch, now);
        if producer.appended.len() == MAX_BATCHES {
            producer.appended.pop_front();
        }
        producer.appended.push_back(Appended {
            first_sequence: header.base_sequence,
            last_sequence: last_sequence(header),
            base_offset,
            append_time,
        });
        producer.last_timestamp = header.max_timestamp;
        if header.is_transactional() {
            if producer.transaction.is_none() {
                producer.transaction = Some(base_offset);
                self.open.insert(base_offset, header.producer_id);
            }
            self.attempts.remove(&header.producer_id);
        }
    }

    /// Checks that a coordinator may end the transaction with this marker. With `bumps`, every marker has a new epoch,
    /// so a marker with the current epoch is a duplicate and must not end a later transaction (KIP-1228).
    pub(crate) fn check_end(&self, marker: &EndMarker, bumps: bool) -> Result<(), ErrorCode> {
        let Some(known) = self.by_id.get(&marker.producer_id) else { return Ok(()) };
        let is_late = bumps && marker.producer_epoch == known.epoch && known.transaction.is_some();
        if marker.producer_epoch < known.epoch || is_late {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        if marker.coordinator_epoch < known.coordinator_epoch {
            return Err(ErrorCode::TRANSACTION_COORDINATOR_FENCED);
        }
        Ok(())
    }

    /// Records that a marker was appended at `offset`.
    pub(crate) fn ended(&mut self, marker: &EndMarker, offset: i64, timestamp: i64, now: Instant) {
        self.attempts.remove(&marker.producer_id);
        let producer = self.get_or_insert(marker.producer_id, marker.producer_epoch, now);
        producer.coordinator_epoch = marker.coordinator_epoch;
        producer.last_timestamp = timestamp;
        // Without records in this partition, the transaction neither blocks the last stable offset nor needs an index
        // entry.
        let Some(first_offset) = producer.transaction.take() else { return };
        self.open.remove(&first_offset);
        if !marker.committed {
            let stable_before = self.first_open().unwrap_or(offset + 1);
            let producer_id = marker.producer_id;
            self.aborted.push(Aborted { producer_id, first_offset, marker: offset, stable_before });
        }
    }

    /// Updates the state from a batch of the log. A restarted broker rebuilds its state in this way.
    pub(crate) fn replay(&mut self, batch: &Batch, now: Instant) {
        let header = &batch.header;
        if header.producer_id < 0 {
            return;
        }
        if header.is_control() {
            if let Some(marker) = EndMarker::read(batch) {
                self.ended(&marker, header.base_offset, header.max_timestamp, now);
            }
        } else {
            self.appended(header, header.base_offset, -1, now);
        }
    }

    /// Removes producers that have been idle for `after`, like `producer.id.expiration.ms`. Producers with an open
    /// transaction are kept.
    pub(crate) fn expire(&mut self, now: Instant, after: Duration) {
        self.by_id.retain(|_, known| known.transaction.is_some() || now.duration_since(known.last_used) < after);
        // Attempts are dropped as well, since an attempt without a later marker would never be removed.
        self.attempts.clear();
    }

    /// Returns all producers, ordered by id.
    pub(crate) fn describe(&self) -> Vec<ProducerSummary> {
        let summary = |(id, known): (&i64, &Producer)| ProducerSummary {
            id: *id,
            epoch: known.epoch,
            last_sequence: known.appended.back().map_or(-1, |last| last.last_sequence),
            last_timestamp: known.last_timestamp,
            coordinator_epoch: known.coordinator_epoch,
            transaction: known.transaction,
        };
        let mut all: Vec<_> = self.by_id.iter().map(summary).collect();
        all.sort_by_key(|summary| summary.id);
        all
    }
}

#[cfg(test)]
#[path = "producers_tests.rs"]
mod tests;
