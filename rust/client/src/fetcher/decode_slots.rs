//! Slots in the queue for fetched bytes that are decoded later: on another core, or once polls have freed capacity for
//! the decoded rows (ADR 17).

use std::collections::{BTreeMap, VecDeque};

use super::partition_records::PartitionRecords;

/// Packed records by slot, in queue order.
#[derive(Debug, Default)]
pub(super) struct DecodeSlots {
    pub(super) slots: BTreeMap<u64, DecodeSlot>,
    /// Places that are being decoded.
    pub(super) decoding: usize,
    pub(super) last_number: u64,
}

/// One of them.
#[derive(Debug)]
pub(super) struct DecodeSlot {
    /// Not decoded yet; nothing while it is being decoded.
    pub(super) pending: VecDeque<PartitionRecords>,
    /// Of what is not decoded yet: it counts as queued.
    pub(super) bytes: usize,
    /// Set if the response lists aborted transactions, which later parts depend on.
    pub(super) ordered: bool,
}

impl DecodeSlots {
    /// Returns true if any records wait to be decoded.
    pub(super) fn any_pending(&self) -> bool {
        self.slots.values().any(|slot| !slot.pending.is_empty())
    }
}
