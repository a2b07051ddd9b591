//! What a partition remembers of idempotent and transactional producers: enough to know a repeated batch from a lost one,
//! and where the oldest transaction began that is still open.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use samsarrow_wire::batch::{Batch, BatchHeader, EndMarker};
use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use super::aborted::{Aborted, AbortedIndex};
use super::batch::{last_sequence, next_sequence};

/// As many batches as an idempotent producer may have in flight.
const REMEMBERED: usize = 5;
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
    /// Of the coordinator that wrote the last marker.
    coordinator_epoch: i32,
    appended: VecDeque<Appended>,
    last_timestamp: i64,
    /// When it was last heard of.
    at: Instant,
    /// Where its open transaction begins.
    transaction: Option<i64>,
}

/// What to do with a batch of an idempotent producer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The next in its row.
    Append,
    /// Appended before: answer what was answered then.
    Duplicate { base_offset: i64, append_time: i64 },
}

/// A producer as DescribeProducers shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    pub(crate) last_sequence: i32,
    pub(crate) last_timestamp: i64,
    pub(crate) coordinator_epoch: i32,
    pub(crate) transaction: Option<i64>,
}

/// The producers that one partition knows.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    by_id: HashMap<i64, Producer>,
    /// First offset and producer of each open transaction.
    open: BTreeMap<i64, i64>,
    /// Epoch and lowest sequence that a transaction tried to begin with here; what comes later must not be first.
    tried: HashMap<i64, (i16, i32)>,
    pub(crate) aborted: AbortedIndex,
}

impl Producers {
    /// Where the oldest open transaction begins.
    pub(crate) fn first_open(&self) -> Option<i64> {
        self.open.first_key_value().map(|(offset, _)| *offset)
    }

    /// Whether this producer has a transaction open here, so that its coordinator need not be asked.
    pub(crate) fn has_open(&self, id: i64, epoch: i16) -> bool {
        self.by_id.get(&id).is_some_and(|known| known.transaction.is_some() && known.epoch == epoch)
    }

    /// Remembers that a transaction was to begin with this batch, before its coordinator is asked (KIP-890).
    pub(crate) fn tries(&mut self, header: &BatchHeader) {
        let (epoch, sequence) = (header.producer_epoch, header.base_sequence);
        let tried = self.tried.entry(header.producer_id).or_insert((epoch, sequence));
        if epoch > tried.0 || (epoch == tried.0 && sequence < tried.1) {
            *tried = (epoch, sequence);
        }
    }

    /// Judges a batch as Kafka's producer state does. A producer that is not known here may begin anywhere, unless it
    /// says with `begins_at_zero` that its epoch is a new one with every transaction (KIP-890).
    pub(crate) fn check(&self, header: &BatchHeader, begins_at_zero: bool) -> Result<Verdict, ErrorCode> {
        let known = self.by_id.get(&header.producer_id);
        let (epoch, sequence) = (header.producer_epoch, header.base_sequence);
        if let Some(repeated) = known.filter(|known| known.epoch == epoch).and_then(|known| {
            let same = |one: &&Appended| one.first_sequence == sequence && one.last_sequence == last_sequence(header);
            known.appended.iter().find(same)
        }) {
            return Ok(Verdict::Duplicate { base_offset: repeated.base_offset, append_time: repeated.append_time });
        }
        if known.is_some_and(|known| epoch < known.epoch) {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        let tried = self.tried.get(&header.producer_id).filter(|_| header.is_transactional());
        let in_order = match known {
            None => sequence == 0 || !(begins_at_zero && header.is_transactional()),
            Some(known) if known.epoch == epoch => {
                known.appended.back().map_or(0, |last| next_sequence(last.last_sequence, 1)) == sequence
            }
            Some(_) => sequence == 0,
        };
        if !in_order || tried.is_some_and(|(_, lowest)| sequence > *lowest) {
            return Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        }
        if known.is_some_and(|known| known.transaction.is_some()) && !header.is_transactional() {
            return Err(ErrorCode::INVALID_TXN_STATE);
        }
        Ok(Verdict::Append)
    }

    fn known_or_new(&mut self, id: i64, epoch: i16, now: Instant) -> &mut Producer {
        let producer = self.by_id.entry(id).or_insert_with(|| Producer {
            epoch,
            coordinator_epoch: NO_EPOCH,
            appended: VecDeque::new(),
            last_timestamp: -1,
            at: now,
            transaction: None,
        });
        if producer.epoch != epoch {
            producer.epoch = epoch;
            producer.appended.clear();
        }
        producer.at = now;
        producer
    }

    /// Remembers a batch that was appended; its transaction begins with it if none is open.
    pub(crate) fn appended(&mut self, header: &BatchHeader, base_offset: i64, append_time: i64, now: Instant) {
        let producer = self.known_or_new(header.producer_id, header.producer_epoch, now);
        if producer.appended.len() == REMEMBERED {
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
            self.tried.remove(&header.producer_id);
        }
    }

    /// Whether a coordinator may end a transaction here. With `bumps` the epoch of each end is a new one: an end under an
    /// epoch that is known came twice, and is not for a transaction that was begun since (KIP-1228).
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

    /// Remembers a marker that was appended at `offset`.
    pub(crate) fn ended(&mut self, marker: &EndMarker, offset: i64, timestamp: i64, now: Instant) {
        self.tried.remove(&marker.producer_id);
        let producer = self.known_or_new(marker.producer_id, marker.producer_epoch, now);
        producer.coordinator_epoch = marker.coordinator_epoch;
        producer.last_timestamp = timestamp;
        // One that left no record here leaves nothing to report.
        let Some(first_offset) = producer.transaction.take() else { return };
        self.open.remove(&first_offset);
        if !marker.committed {
            let stable_before = self.first_open().unwrap_or(offset + 1);
            let producer_id = marker.producer_id;
            self.aborted.push(Aborted { producer_id, first_offset, marker: offset, stable_before });
        }
    }

    /// Learns from a batch of a log that is read anew, as a broker does that was started again.
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

    /// Forgets anyone who was silent for long, as `producer.id.expiration.ms`; an open transaction keeps its producer.
    pub(crate) fn expire(&mut self, now: Instant, after: Duration) {
        self.by_id.retain(|_, known| known.transaction.is_some() || now.duration_since(known.at) < after);
        // What was tried and never done is of nobody who is waited for.
        self.tried.clear();
    }

    /// Every producer, in order of ids.
    pub(crate) fn describe(&self) -> Vec<Described> {
        let one = |(id, known): (&i64, &Producer)| Described {
            id: *id,
            epoch: known.epoch,
            last_sequence: known.appended.back().map_or(-1, |last| last.last_sequence),
            last_timestamp: known.last_timestamp,
            coordinator_epoch: known.coordinator_epoch,
            transaction: known.transaction,
        };
        let mut all: Vec<_> = self.by_id.iter().map(one).collect();
        all.sort_by_key(|one| one.id);
        all
    }
}

#[cfg(test)]
#[path = "producers_tests.rs"]
mod tests;
