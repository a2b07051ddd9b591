//! Partitions of recreated topics, until they are reported and their old offsets are discarded.

use std::collections::BTreeSet;

use samsarrow_wire::messages::Uuid;

use crate::types::TopicPartition;

/// A partition whose position was in a topic that has been deleted and created again.
#[derive(Debug)]
pub(super) struct Recreated {
    pub(super) tp: TopicPartition,
    pub(super) old: Uuid,
    pub(super) new: Uuid,
    /// Position in the old topic, if known.
    pub(super) position: Option<i64>,
}

/// Partitions of recreated topics that are not reported yet, or whose old offsets are not discarded yet.
#[derive(Debug, Default)]
pub(super) struct OldTopics {
    /// Generation of the newest metadata that topic ids were compared with.
    pub(super) generation: u64,
    /// Partitions that have not been logged yet.
    pub(super) unreported: Vec<Recreated>,
    /// Partitions whose stored and committed offsets belong to the old topic.
    pub(super) uncommittable: BTreeSet<TopicPartition>,
}
