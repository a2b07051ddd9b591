//! Places in the queue for fetched bytes that are decoded later: on another core, or once polls have made room for what
//! they become (ADR 17).

use std::collections::{BTreeMap, VecDeque};

use super::partition_records::Part;

/// What has a place in the queue, in the order of the places.
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
    /// Parts of it say which transactions of later ones are void.
    pub(super) ordered: bool,
}

impl Places {
    /// Whether anything waits to be decoded.
    pub(super) fn any_packed(&self) -> bool {
        self.kept.values().any(|place| !place.packed.is_empty())
    }
}
