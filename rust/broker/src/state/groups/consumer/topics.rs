//! The topics that there are, and those that a group reads.

use std::collections::BTreeMap;

use super::member::Member;
use super::{Consumers, Partitions};

/// Id and number of partitions of topics, by name.
pub(crate) type Known = BTreeMap<String, ([u8; 16], i32)>;

/// All topics of the broker.
#[derive(Debug, Default)]
pub(crate) struct Catalog(pub(crate) Known);

impl Consumers {
    /// The topics that any member reads and that are there.
    pub(super) fn find_reading(&self, catalog: &Catalog) -> Known {
        let is_read = |name: &str| self.members.iter().any(|member| member.reads(name));
        let read = catalog.0.iter().filter(|(name, _)| is_read(name));
        read.map(|(name, topic)| (name.clone(), *topic)).collect()
    }

    /// All partitions of the topics that a member reads.
    pub(super) fn partitions_for(&self, member: &Member) -> Partitions {
        let topics = self.reading.iter().filter(|(name, _)| member.reads(name));
        topics.flat_map(|(_, (id, count))| (0..*count).map(|partition| (*id, partition))).collect()
    }
}
