//! Transaction markers, and the filter for `read_committed`.
use std::collections::{HashSet, VecDeque};

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
