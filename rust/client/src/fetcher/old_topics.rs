//! Partitions of recreated topics, until they are reported and their offsets are discarded.

use std::collections::BTreeSet;

use samsarrow_wire::messages::Uuid;

use crate::types::TopicPartition;

/// A partition whose position was in a deleted topic.
#[derive(Debug)]
pub(super) struct Recreated {
    pub(super) tp: TopicPartition,
    pub(super) old: Uuid,
    pub(super) new: Uuid,
    /// Position in the old topic, if known.
    pub(super) position: Option<i64>,
}

/// Recreated partitions that still have to be reported or discarded.
#[derive(Debug, Default)]
pub(super) struct OldTopics {
    /// Generation of the newest metadata whose topic ids were compared.
    pub(super) generation: u64,
    /// Partitions not logged yet.
    pub(super) unreported: Vec<Recreated>,
    /// Partitions whose stored and committed offsets are those of the old topic.
    pub(super) uncommittable: BTreeSet<TopicPartition>,
}
