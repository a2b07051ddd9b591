//! Topics known to the broker, and topics subscribed by a group.

use std::collections::BTreeMap;

use super::Consumers;

/// Topic ids and partition counts by name.
pub(crate) type TopicIndex = BTreeMap<String, ([u8; 16], i32)>;

/// All topics of the broker.
#[derive(Debug, Default)]
pub(crate) struct Catalog(pub(crate) TopicIndex);

impl Consumers {
    /// Returns the existing topics that any member subscribes to.
    pub(super) fn find_subscribed_topics(&self, catalog: &Catalog) -> TopicIndex {
        let is_read = |name: &str| self.members.iter().any(|member| member.reads(name));
        let read = catalog.0.iter().filter(|(name, _)| is_read(name));
        read.map(|(name, topic)| (name.clone(), *topic)).collect()
    }
}
