//! Slots in the queue for fetched bytes that are decoded later: on another core, or once polls have freed capacity for
//! the decoded rows (ADR 17).

use std::collections::{BTreeMap, VecDeque};

use super::partition_records::Part;

/// Packed records by slot, in queue order.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) kept: BTreeMap<u64, Place>,
    /// Places that are being decoded.
    pub(super) decoding: usize,
    pub(super) next: u64,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Place {
    /// Not decoded yet; nothing while it is being decoded.
    pub(super) packed: VecDeque<Part>,
    /// Of what is not decoded yet: it counts as queued.
    pub(super) bytes: usize,
    /// Set if the response lists aborted transactions, which later parts depend on.
    pub(super) ordered: bool,
}

impl Places {
    /// Returns true if any records wait to be decoded.
    pub(super) fn any_packed(&self) -> bool {
        self.kept.values().any(|place| !place.packed.is_empty())
    }
}
