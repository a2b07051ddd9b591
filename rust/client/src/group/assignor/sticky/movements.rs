//! Which partitions moved from whom to whom while an assignment is balanced.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// From a member to another.
type Pair = (usize, usize);

/// The moves so far. Two partitions of a topic that change places would be two moves for nothing: where one is to go
/// back the way that another came, that one is sent home instead.
#[derive(Debug, Default)]
pub(super) struct Movements {
    of_partition: HashMap<usize, Pair>,
    /// By topic and pair.
    moved: BTreeMap<(usize, Pair), BTreeSet<usize>>,
}

impl Movements {
    /// The partition to move from `from` to `to` in the place of this one.
    pub(super) fn instead_of(&self, partition: usize, topic: usize, from: usize, to: usize) -> usize {
        let origin = self.of_partition.get(&partition).map_or(from, |pair| pair.0);
        let back = self.moved.get(&(topic, (to, origin)));
        back.and_then(|partitions| partitions.first()).copied().unwrap_or(partition)
    }

    /// A partition moved; what came back where it was has not moved at all.
    pub(super) fn moved(&mut self, partition: usize, topic: usize, from: usize, to: usize) {
        let origin = match self.of_partition.remove(&partition) {
            Some(pair) => {
                if let Some(partitions) = self.moved.get_mut(&(topic, pair)) {
                    partitions.remove(&partition);
                }
                pair.0
            }
            None => from,
        };
        if origin != to {
            self.of_partition.insert(partition, (origin, to));
            self.moved.entry((topic, (origin, to))).or_default().insert(partition);
        }
    }
}
