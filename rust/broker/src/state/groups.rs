//! Committed offsets of consumer groups.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// An offset that a group committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
}

/// A topic's id is kept with its offsets, so that they do not outlive a deleted topic of the same name.
type Offsets = BTreeMap<(Arc<str>, i32), ([u8; 16], Committed)>;

/// The offsets of every group.
#[derive(Debug, Default)]
pub(crate) struct Groups(HashMap<String, Offsets>);

impl Groups {
    pub(crate) fn knows(&self, group: &str) -> bool {
        self.0.contains_key(group)
    }

    pub(crate) fn commit(&mut self, group: &str, topic: &Arc<str>, id: [u8; 16], partition: i32, committed: Committed) {
        let offsets = match self.0.get_mut(group) {
            Some(offsets) => offsets,
            None => self.0.entry(group.to_owned()).or_default(),
        };
        offsets.insert((topic.clone(), partition), (id, committed));
    }

    pub(crate) fn committed(&self, group: &str, topic: &Arc<str>, id: [u8; 16], partition: i32) -> Option<Committed> {
        let (of, committed) = self.0.get(group)?.get(&(topic.clone(), partition))?;
        (*of == id).then(|| committed.clone())
    }

    /// Every offset of a group, in order of topic and partition.
    pub(crate) fn all(&self, group: &str) -> Vec<(Arc<str>, i32, Committed)> {
        let offsets = self.0.get(group).into_iter().flatten();
        offsets.map(|((topic, partition), (_, committed))| (topic.clone(), *partition, committed.clone())).collect()
    }

    /// Drops what groups committed for a topic that was deleted.
    pub(crate) fn forget_topic(&mut self, id: [u8; 16]) {
        for offsets in self.0.values_mut() {
            offsets.retain(|_, (of, _)| *of != id);
        }
    }
}
