//! Transaction markers, and the filter for `read_committed`.
use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;

use super::encode::{BatchBuilder, BatchOptions, EncodeError};
use super::record::RawRecord;
use super::records::{RecordVisitor, walk};
use super::{Batch, HEADER_LEN};
use crate::compression::{Codec, Compressor};

/// What a record of a control batch says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlType {
    /// The transaction's records are void.
    Abort,
    /// The transaction's records are valid.
    Commit,
    /// KRaft and its log: not for users.
    LeaderChange,
    /// KRaft and its log: not for users.
    SnapshotHeader,
    /// KRaft and its log: not for users.
    SnapshotFooter,
    /// KRaft and its log: not for users.
    KRaftVersion,
    /// KRaft and its log: not for users.
    KRaftVoters,
    /// A type this library does not know.
    Unknown(i16),
}

impl ControlType {
    /// Reads the key of a control record (version, type); `None` if it is too short to hold one.
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

    /// Kafka's name for it.
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

/// The end of a producer's transaction in one partition, which a coordinator has written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndMarker {
    /// Whose transaction it is.
    pub producer_id: i64,
    /// The producer's epoch at the end.
    pub producer_epoch: i16,
    /// Whether its records are valid.
    pub committed: bool,
    /// The coordinator's own epoch: a marker of an older one is void.
    pub coordinator_epoch: i32,
}

impl EndMarker {
    /// The control batch that says so, of one record at `timestamp`; its offset is 0, as a client's would be.
    pub fn encode(&self, timestamp: i64) -> Result<Vec<u8>, EncodeError> {
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            transactional: true,
            control: true,
            ..BatchOptions::default()
        });
        // Version 0 of both, then the type or the coordinator's epoch.
        let key = [0, 0, 0, u8::from(self.committed)];
        let mut value = [0; 6];
        let (_, epoch) = value.split_at_mut(2);
        epoch.copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        builder.append(timestamp, Some(&key), Some(&value), std::iter::empty())?;
        builder.finish(&mut Compressor::new(Codec::None, None)?)
    }

    /// What a control batch says; `None` for one that ends no transaction, and for bytes that make no sense.
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

/// An aborted transaction, as a Fetch response lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Whose it was.
    pub producer_id: i64,
    /// Its first offset in the partition.
    pub first_offset: i64,
}

/// Which batches of one partition's Fetch response belong to aborted transactions.
///
/// It walks along with the batches, so keep one per response and partition, also when the response is decoded in
/// several steps: a new one would take transactions that have ended since for running ones.
#[derive(Debug, Clone, Default)]
pub struct AbortedTransactions {
    pending: VecDeque<AbortedTransaction>,
    active: HashSet<i64>,
}

impl AbortedTransactions {
    /// From the list of the response, in any order.
    pub fn new(list: impl IntoIterator<Item = AbortedTransaction>) -> AbortedTransactions {
        let mut pending: Vec<_> = list.into_iter().collect();
        // Brokers of some vendors do not sort it.
        pending.sort_by_key(|t| t.first_offset);
        AbortedTransactions { pending: pending.into(), active: HashSet::new() }
    }

    /// Whether a batch of `producer_id` that ends at `last_offset` is aborted. Call it for each transactional batch
    /// in turn; asking again for the same batch gives the same answer.
    pub fn is_aborted(&mut self, producer_id: i64, last_offset: i64) -> bool {
        while let Some(next) = self.pending.front().filter(|t| t.first_offset <= last_offset) {
            self.active.insert(next.producer_id);
            self.pending.pop_front();
        }
        self.active.contains(&producer_id)
    }

    /// To be called at an abort marker of `producer_id` at `offset`: its transaction ends here.
    pub fn end(&mut self, producer_id: i64, offset: i64) {
        self.is_aborted(producer_id, offset);
        self.active.remove(&producer_id);
    }
}
