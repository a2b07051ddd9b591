//! Partition movements between members during balancing.

use std::collections::{BTreeMap, BTreeSet};

use crate::collections::HashMap;

/// Source and destination member.
type Pair = (usize, usize);

/// Movements so far. If two partitions of a topic swapped owners, both movements would be useless. Therefore, instead
/// of moving a second partition in the opposite direction, the first partition is moved back.
#[derive(Debug, Default)]
pub(super) struct Movements {
    of_partition: HashMap<usize, Pair>,
    /// Partitions moved, by topic and pair.
    by_topic: BTreeMap<(usize, Pair), BTreeSet<usize>>,
}

impl Movements {
    /// Returns the partition to move from `from` to `to`: a partition of the topic that can move back, otherwise
    /// `partition`.
    pub(super) fn partition_to_move(&self, partition: usize, topic: usize, from: usize, to: usize) -> usize {
        let origin = self.of_partition.get(&partition).map_or(from, |pair| pair.0);
        let opposite = self.by_topic.get(&(topic, (to, origin)));
        opposite.and_then(|partitions| partitions.first()).copied().unwrap_or(partition)
    }

    /// Records a movement. A partition that returned to its origin counts as not moved.
    pub(super) fn record(&mut self, partition: usize, topic: usize, from: usize, to: usize) {
        let origin = match self.of_partition.remove(&partition) {
            Some(pair) => {
                if let Some(partitions) = self.by_topic.get_mut(&(topic, pair)) {
                    partitions.remove(&partition);
                }
                pair.0
            }
            None => from,
        };
        if origin != to {
            self.of_partition.insert(partition, (origin, to));
            self.by_topic.entry((topic, (origin, to))).or_default().insert(partition);
        }
    }
}
