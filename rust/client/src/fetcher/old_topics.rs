//! Partitions of topics that were deleted and created again, until that is reported and their offsets are forgotten.

use std::collections::BTreeSet;

use samsarrow_wire::messages::Uuid;

use crate::types::TopicPartition;

/// A partition whose position was in a topic that is deleted.
#[derive(Debug)]
pub(super) struct Recreated {
    pub(super) tp: TopicPartition,
    pub(super) old: Uuid,
    pub(super) new: Uuid,
    /// The position in the old topic, if it had one.
    pub(super) position: Option<i64>,
}

/// Recreated partitions, and what is still to be done about them.
#[derive(Debug, Default)]
pub(super) struct OldTopics {
    /// The newest metadata whose ids were compared.
    pub(super) generation: u64,
    /// Not logged yet.
    pub(super) unreported: Vec<Recreated>,
    /// Partitions whose offsets in the group's commits are those of the old topic.
    pub(super) uncommittable: BTreeSet<TopicPartition>,
}
