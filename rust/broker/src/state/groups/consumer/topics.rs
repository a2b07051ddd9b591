//! The topics that there are, and those that a group reads.

use std::collections::BTreeMap;

use super::Consumers;

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
}
