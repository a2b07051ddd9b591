//! Stale metadata, which makes clients use outdated leaders in tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use samsarrow_wire::messages::Uuid;
use samsarrow_wire::sync::lock;

use super::State;
use super::topic::Topic;

/// Node id of a leader, and the leader epoch.
type LeaderAndEpoch = (i32, i32);

/// A topic in frozen metadata.
#[derive(Debug, Clone)]
struct FrozenTopic {
    id: Uuid,
    leaders: Vec<LeaderAndEpoch>,
}

/// Frozen metadata that responses contain instead of the current metadata.
#[derive(Debug)]
pub(crate) struct Stale {
    /// Number of remaining responses with frozen metadata; `None` for all.
    responses_left: Option<usize>,
    /// Frozen leaders by topic and partition. Responses omit all other topics.
    topics: BTreeMap<Arc<str>, FrozenTopic>,
}

/// Metadata for one response: the frozen leaders, or `None` for the current metadata.
#[derive(Debug, Clone)]
pub(crate) struct MetadataView(Option<BTreeMap<Arc<str>, FrozenTopic>>);

impl MetadataView {
    /// Returns true if the response includes the topic.
    pub(crate) fn has(&self, topic: &str) -> bool {
        self.0.as_ref().is_none_or(|topics| topics.contains_key(topic))
    }

    /// Returns true if the metadata is current.
    pub(crate) fn is_fresh(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the frozen leader of a partition, or `now` if the partition has none. A topic that was recreated since
    /// has none: no broker reports its id with the epochs of the old topic.
    pub(crate) fn leader(&self, topic: &Topic, partition: i32, now: LeaderAndEpoch) -> LeaderAndEpoch {
        let frozen = self.0.as_ref().and_then(|topics| topics.get(&topic.name)).filter(|frozen| frozen.id == topic.id);
        let old = frozen.and_then(|frozen| frozen.leaders.get(usize::try_from(partition).ok()?));
        old.copied().unwrap_or(now)
    }
}

impl State {
    /// Freezes the current metadata for the next `times` responses, without the topics in `without`.
    pub(crate) fn freeze_metadata(&self, times: Option<usize>, without: &[String]) {
        let leaders = |topic: &Topic| {
            let leader_and_epoch = |(_, partition): (i32, &Arc<super::topic::Partition>)| {
                let state = partition.state();
                (state.leader, state.leader_epoch)
            };
            topic.partitions().map(leader_and_epoch).collect()
        };
        let topics = self.topics();
        let included = topics.iter().filter(|topic| !without.iter().any(|name| **name == *topic.name));
        let topics =
            included.map(|topic| (topic.name.clone(), FrozenTopic { id: topic.id, leaders: leaders(topic) })).collect();
        *lock(&self.stale) = Some(Stale { responses_left: times, topics });
    }

    pub(crate) fn unfreeze_metadata(&self) {
        *lock(&self.stale) = None;
    }

    /// Returns the metadata for the next response.
    pub(crate) fn metadata_view(&self) -> MetadataView {
        let mut guard = lock(&self.stale);
        let Some(stale) = guard.as_mut() else { return MetadataView(None) };
        let topics = stale.topics.clone();
        if let Some(responses_left) = &mut stale.responses_left {
            *responses_left = responses_left.saturating_sub(1);
            if *responses_left == 0 {
                *guard = None;
            }
        }
        MetadataView(Some(topics))
    }
}
