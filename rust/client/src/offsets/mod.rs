//! Offsets: listed by the partitions' leaders, committed to and fetched from the group's coordinator.

mod committed;
mod listed;

pub use committed::{commit, fetch_committed};
pub use listed::{ListTarget, list_offsets};

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::types::TopicPartition;

/// Items by topic, in the order of the topics' names: the shape that requests want.
fn by_topic<T>(items: impl IntoIterator<Item = (TopicPartition, T)>) -> BTreeMap<Arc<str>, Vec<(i32, T)>> {
    let mut topics: BTreeMap<Arc<str>, Vec<(i32, T)>> = BTreeMap::new();
    for (tp, item) in items {
        topics.entry(tp.topic).or_default().push((tp.partition, item));
    }
    topics
}
