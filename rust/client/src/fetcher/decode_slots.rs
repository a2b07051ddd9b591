//! Slots of the queue for records that are decoded later: on another core, or after polls have freed capacity (ADR 17).

use std::collections::{BTreeMap, VecDeque};

use super::partition_records::PartitionRecords;

/// Pending records by slot number, in queue order.
#[derive(Debug, Default)]
pub(super) struct DecodeSlots {
    pub(super) slots: BTreeMap<u64, DecodeSlot>,
    /// Number of slots being decoded.
    pub(super) decoding: usize,
    pub(super) last_number: u64,
}

/// Records that are decoded into one slot.
#[derive(Debug)]
pub(super) struct DecodeSlot {
    /// Records not decoded yet; empty while they are being decoded.
    pub(super) pending: VecDeque<PartitionRecords>,
    /// Size of the records not decoded yet, which counts as queued.
    pub(super) bytes: usize,
    /// Set if the response lists aborted transactions. Slots with this flag are decoded in order, because later records
    /// depend on the earlier ones.
    pub(super) ordered: bool,
}

impl DecodeSlots {
    /// Returns true if any records wait to be decoded.
    pub(super) fn any_pending(&self) -> bool {
        self.slots.values().any(|slot| !slot.pending.is_empty())
    }
}
