//! Offsets: listed by the partitions' leaders, committed to and fetched from the group's coordinator.

mod committed;
mod listed;

pub use committed::{Outcomes, commit, fetch_committed};
pub(crate) use listed::list_as_found;
pub use listed::{ListTarget, Listed, list_offsets, list_offsets_each};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;

use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::types::TopicPartition;

/// Partitions of known topics must be there: a broker's answer about one that is not would only be "try again".
/// Metadata that lacks one may be old, so it is asked for once more.
async fn check_partitions<'a>(
    cluster: &Cluster,
    partitions: impl Iterator<Item = &'a TopicPartition> + Clone,
    timeout: Duration,
) -> Result<()> {
    let missing = || {
        let metadata = cluster.metadata();
        let absent = |tp: &&TopicPartition| {
            metadata.topic(&tp.topic).is_some() && metadata.partition(&tp.topic, tp.partition).is_none()
        };
        let tp = partitions.clone().find(absent)?;
        let count = metadata.topic(&tp.topic).map_or(0, |topic| topic.partitions.len());
        let context = format!("{tp} (topic {} has {count} partitions, from 0 on)", tp.topic);
        Some(Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context))
    };
    if missing().is_some() {
        cluster.refresh(timeout.min(cluster.options().request_timeout)).await?;
    }
    missing().map_or(Ok(()), Err)
}

/// Items by topic, in the order of the topics' names: the shape that requests want.
pub(crate) fn by_topic<T>(items: impl IntoIterator<Item = (TopicPartition, T)>) -> BTreeMap<Arc<str>, Vec<(i32, T)>> {
    let mut topics: BTreeMap<Arc<str>, Vec<(i32, T)>> = BTreeMap::new();
    for (tp, item) in items {
        topics.entry(tp.topic).or_default().push((tp.partition, item));
    }
    topics
}
