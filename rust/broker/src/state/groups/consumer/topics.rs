//! Topics of the broker, and the topics to which a group is subscribed.

use std::collections::BTreeMap;

use super::Consumers;

/// Topic id and partition count of each topic, by topic name.
pub(crate) type TopicIndex = BTreeMap<String, ([u8; 16], i32)>;

/// All topics of the broker.
#[derive(Debug, Default)]
pub(crate) struct Catalog(pub(crate) TopicIndex);

impl Consumers {
    /// Returns the existing topics to which at least one member is subscribed.
    pub(super) fn find_subscribed_topics(&self, catalog: &Catalog) -> TopicIndex {
        let is_read = |name: &str| self.members.iter().any(|member| member.reads(name));
        let read = catalog.0.iter().filter(|(name, _)| is_read(name));
        read.map(|(name, topic)| (name.clone(), *topic)).collect()
    }
}
