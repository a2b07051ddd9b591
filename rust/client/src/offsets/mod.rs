//! Offsets of partitions, from the partition leaders, and committed offsets of groups.

mod committed;
mod list;
pub(crate) mod messages;
pub(crate) mod topic_ids;

pub(crate) use committed::{PATIENCE, TopicIds, commit_with, fetch_committed_each};
pub use committed::{commit, fetch_committed};
pub use list::{ListTarget, Listed, list_offsets, list_offsets_each};
pub(crate) use list::{UnknownTopic, list_offsets_with};
pub use messages::Outcomes;

use std::collections::BTreeMap;
use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;

use crate::cluster::metadata::Metadata;
use crate::error::Error;
use crate::types::TopicPartition;

/// Returns an error if the topic exists and the partition does not.
pub(crate) fn absent(metadata: &Metadata, tp: &TopicPartition) -> Option<Error> {
    let topic = metadata.topic(&tp.topic).filter(|topic| topic.partition(tp.partition).is_none())?;
    let context = format!("{tp} (topic {} has {} partitions, from 0 on)", tp.topic, topic.partitions.len());
    Some(Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context))
}

/// Groups items by topic, because requests list the partitions of each topic. Topics are sorted by name.
pub(crate) fn by_topic<T>(items: impl IntoIterator<Item = (TopicPartition, T)>) -> BTreeMap<Arc<str>, Vec<(i32, T)>> {
    let mut topics: BTreeMap<Arc<str>, Vec<(i32, T)>> = BTreeMap::new();
    for (tp, item) in items {
        topics.entry(tp.topic).or_default().push((tp.partition, item));
    }
    topics
}
