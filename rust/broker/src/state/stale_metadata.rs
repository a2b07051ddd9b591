//! Stale metadata, for tests of clients with outdated leaders.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::State;
use super::topic::Topic;
use crate::sync::lock;

/// A leader and its epoch.
type LeaderAndEpoch = (i32, i32);

/// Frozen metadata returned instead of the current one.
#[derive(Debug)]
pub(crate) struct Stale {
    /// Number of responses left; unlimited if `None`.
    responses_left: Option<usize>,
    /// Leaders by topic and partition; other topics are omitted.
    topics: BTreeMap<Arc<str>, Vec<LeaderAndEpoch>>,
}

/// Metadata for one response: frozen, or current if `None`.
#[derive(Debug, Clone)]
pub(crate) struct MetadataView(Option<BTreeMap<Arc<str>, Vec<LeaderAndEpoch>>>);

impl MetadataView {
    /// Returns true if the response includes the topic.
    pub(crate) fn has(&self, topic: &str) -> bool {
        self.0.as_ref().is_none_or(|topics| topics.contains_key(topic))
    }

    /// Returns true if the metadata is current.
    pub(crate) fn is_fresh(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the frozen leader of a partition, or `now` if none is recorded.
    pub(crate) fn leader(&self, topic: &str, partition: i32, now: LeaderAndEpoch) -> LeaderAndEpoch {
        let partitions = self.0.as_ref().and_then(|topics| topics.get(topic));
        let old = partitions.and_then(|leaders| leaders.get(usize::try_from(partition).ok()?));
        old.copied().unwrap_or(now)
    }
}

impl State {
    /// Freezes the current metadata for the next responses.
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
        let topics = included.map(|topic| (topic.name.clone(), leaders(topic))).collect();
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
