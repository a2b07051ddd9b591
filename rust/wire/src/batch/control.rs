//! Transaction markers, and the filter for `read_committed`.
use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;

use super::encode::{BatchBuilder, BatchOptions, EncodeError};
use super::record::RawRecord;
use super::records::{RecordVisitor, walk};
use super::{Batch, HEADER_LEN};
use crate::compression::{Codec, Compressor};

/// The type of a control record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlType {
    /// The transaction was aborted, so its records are skipped.
    Abort,
    /// The transaction was committed.
    Commit,
    /// Announces a new leader of the KRaft log. Not returned to users.
    LeaderChange,
    /// Start of a KRaft snapshot. Not returned to users.
    SnapshotHeader,
    /// End of a KRaft snapshot. Not returned to users.
    SnapshotFooter,
    /// The KRaft version of the quorum. Not returned to users.
    KRaftVersion,
    /// The voters of the KRaft quorum. Not returned to users.
    KRaftVoters,
    /// An unknown type.
    Unknown(i16),
}

impl ControlType {
    /// Reads the key of a control record (version, type). Returns `None` if the key is too short.
    pub fn from_key(key: &[u8]) -> Option<ControlType> {
        let &[_, _, high, low, ..] = key else { return None };
        Some(match i16::from_be_bytes([high, low]) {
            0 => ControlType::Abort,
            1 => ControlType::Commit,
            2 => ControlType::LeaderChange,
            3 => ControlType::SnapshotHeader,
            4 => ControlType::SnapshotFooter,
            5 => ControlType::KRaftVersion,
            6 => ControlType::KRaftVoters,
            other => ControlType::Unknown(other),
        })
    }

    /// Returns Kafka's name of the control record type.
    pub fn name(self) -> &'static str {
        match self {
            ControlType::Abort => "ABORT",
            ControlType::Commit => "COMMIT",
            ControlType::LeaderChange => "LEADER_CHANGE",
            ControlType::SnapshotHeader => "SNAPSHOT_HEADER",
            ControlType::SnapshotFooter => "SNAPSHOT_FOOTER",
            ControlType::KRaftVersion => "KRAFT_VERSION",
            ControlType::KRaftVoters => "KRAFT_VOTERS",
            ControlType::Unknown(_) => "UNKNOWN",
        }
    }
}

/// The end marker of a producer's transaction in one partition, written by the transaction coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndMarker {
    /// Id of the transaction's producer.
    pub producer_id: i64,
    /// Epoch of the producer at the end of the transaction.
    pub producer_epoch: i16,
    /// True for a commit, false for an abort.
    pub committed: bool,
    /// Epoch of the coordinator; brokers reject markers with an older epoch.
    pub coordinator_epoch: i32,
}

impl EndMarker {
    /// Encodes the marker as a control batch with a single record, whose timestamp is `timestamp`. The batch's base
    /// offset is 0, as in all batches that clients send.
    pub fn encode(&self, timestamp: i64) -> Result<Vec<u8>, EncodeError> {
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            transactional: true,
            control: true,
            ..BatchOptions::default()
        });
        // Key: version 0 and the type. Value: version 0 and the coordinator's epoch.
        let key = [0, 0, 0, u8::from(self.committed)];
        let mut value = [0; 6];
        let (_, epoch) = value.split_at_mut(2);
        epoch.copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        builder.append(timestamp, Some(&key), Some(&value), std::iter::empty())?;
        builder.finish(&mut Compressor::new(Codec::None, None)?)
    }

    /// Reads the marker in a control batch. Returns `None` if the batch has no end marker or is malformed.
    pub fn read(batch: &Batch) -> Option<EndMarker> {
        struct First(Option<(ControlType, i32)>);
        impl RecordVisitor for First {
            fn record(&mut self, data: &[u8], record: &RawRecord) -> ControlFlow<()> {
                let kind = record.key(data).and_then(ControlType::from_key);
                let epoch = record.value(data).and_then(|value| value.get(2..6)?.try_into().ok());
                self.0 = kind.zip(epoch.map(i32::from_be_bytes));
                ControlFlow::Break(())
            }
        }
        let header = &batch.header;
        if !header.is_control() || batch.bytes().len() < HEADER_LEN {
            return None;
        }
        let mut first = First(None);
        walk(&batch.payload(), header.record_count, &mut first).ok()?;
        let (kind, coordinator_epoch) = first.0?;
        let committed = match kind {
            ControlType::Commit => true,
            ControlType::Abort => false,
            _ => return None,
        };
        let (producer_id, producer_epoch) = (header.producer_id, header.producer_epoch);
        Some(EndMarker { producer_id, producer_epoch, committed, coordinator_epoch })
    }
}

/// An aborted transaction, as listed in a Fetch response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Id of the producer that aborted the transaction.
    pub producer_id: i64,
    /// First offset of the transaction in the partition.
    pub first_offset: i64,
}

/// Filter for batches of aborted transactions in one partition's Fetch response.
///
/// The filter tracks the transactions that are active in the partition, so use the same filter for all batches of the
/// partition in a response, even if the response is decoded in several steps. A new filter would treat transactions
/// that have already ended as active.
#[derive(Debug, Clone, Default)]
pub struct AbortedTransactions {
    pending: VecDeque<AbortedTransaction>,
    active: HashSet<i64>,
}

impl AbortedTransactions {
    /// Creates a filter from the response's list of aborted transactions, which may be in any order.
    pub fn new(list: impl IntoIterator<Item = AbortedTransaction>) -> AbortedTransactions {
        let mut pending: Vec<_> = list.into_iter().collect();
        // Some brokers other than Apache Kafka do not sort the list.
        pending.sort_by_key(|t| t.first_offset);
        AbortedTransactions { pending: pending.into(), active: HashSet::new() }
    }

    /// Returns true if a batch of `producer_id` that ends at `last_offset` is aborted. Call it for each transactional
    /// batch in offset order; repeated calls for the same batch return the same result.
    pub fn is_aborted(&mut self, producer_id: i64, last_offset: i64) -> bool {
        while let Some(next) = self.pending.front().filter(|t| t.first_offset <= last_offset) {
            self.active.insert(next.producer_id);
            self.pending.pop_front();
        }
        self.active.contains(&producer_id)
    }

    /// Ends the transaction of `producer_id`. Call this for the transaction's abort marker, whose offset is `offset`.
    pub fn end(&mut self, producer_id: i64, offset: i64) {
        self.is_aborted(producer_id, offset);
        self.active.remove(&producer_id);
    }
}
