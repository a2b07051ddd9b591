//! Detection of recreated topics: a position belongs to a topic id (KIP-516) and is dropped if the topic gets another
//! id.

use std::collections::BTreeMap;
use std::sync::Arc;

use samsarrow_wire::messages::Uuid;

use super::old_topics::Recreated;
use super::shared_state::Shared;
use super::state::State;
use crate::cluster::Cluster;
use crate::cluster::metadata::Metadata;
use crate::config::OffsetReset;
use crate::group::Offsets;
use crate::metrics::Event;
use crate::types::{TopicPartition, join_limited};

/// Dropped positions, by topic name, old id and new id.
type PositionsByTopic = BTreeMap<(Arc<str>, Uuid, Uuid), Vec<(TopicPartition, i64)>>;

impl State {
    /// Drops positions, rows and errors of topics whose id in `metadata` differs. Ignores snapshots older than the
    /// newest one compared so far, because they contain the old ids.
    pub(super) fn compare_topic_ids(&mut self, metadata: &Metadata, reset: OffsetReset) {
        if metadata.generation < self.old_topics.generation {
            return;
        }
        self.old_topics.generation = metadata.generation;
        let mut current: Option<(Arc<str>, Uuid)> = None;
        let mut recreated = Vec::new();
        for (tp, cursor) in self.cursors.iter().filter(|(_, cursor)| !cursor.topic_id.is_zero()) {
            let id = match &current {
                Some((name, id)) if *name == tp.topic => *id,
                _ => {
                    let id = metadata.topic(&tp.topic).map_or(Uuid::ZERO, |topic| topic.topic_id);
                    current = Some((Arc::clone(&tp.topic), id));
                    id
                }
            };
            if cursor.is_of_another_topic(id) {
                recreated.push(Recreated { tp: tp.clone(), old: cursor.topic_id, new: id, position: cursor.position });
            }
        }
        for topic_partition in recreated {
            self.restart(&topic_partition.tp, topic_partition.new, reset);
            self.old_topics.uncommittable.insert(topic_partition.tp.clone());
            self.old_topics.unreported.push(topic_partition);
        }
    }

    /// Restarts a partition in the topic with id `topic_id`, at the offset that `auto.offset.reset` selects.
    fn restart(&mut self, tp: &TopicPartition, topic_id: Uuid, reset: OffsetReset) {
        let version = self.next_version();
        if let Some(cursor) = self.cursors.get_mut(tp) {
            cursor.restart(topic_id, version);
            // The end of a bounded read was an offset of the old topic, so it is removed. Without a reset policy the
            // end is kept, because the read must fail instead of ending early.
            if reset != OffsetReset::None {
                cursor.until = None;
            }
        }
        self.forget_rows(tp);
    }
}

impl Shared {
    /// Drops the state of topics whose id in `metadata` differs, and logs the dropped positions.
    pub(crate) fn compare_topic_ids(&self, cluster: &Cluster, metadata: &Metadata, reset: OffsetReset) {
        self.lock().compare_topic_ids(metadata, reset);
        self.report_recreated(cluster, reset);
    }

    /// Logs the positions dropped since the last call, one line per topic.
    pub(super) fn report_recreated(&self, cluster: &Cluster, reset: OffsetReset) {
        let recreated = std::mem::take(&mut self.lock().old_topics.unreported);
        if recreated.is_empty() {
            return;
        }
        let mut topics = PositionsByTopic::new();
        for topic_partition in recreated {
            if let Some(position) = topic_partition.position {
                let topic = (Arc::clone(&topic_partition.tp.topic), topic_partition.old, topic_partition.new);
                topics.entry(topic).or_default().push((topic_partition.tp, position));
            }
        }
        for ((topic, old, new), positions) in topics {
            let partitions = join_limited(positions.iter().map(|(tp, position)| format!("{tp} at offset {position}")));
            let continues = match reset {
                OffsetReset::Earliest => "at the first offset of the new topic".to_owned(),
                OffsetReset::Latest => "at the end of the new topic".to_owned(),
                OffsetReset::ByDuration(age) => format!("at the new topic's records of the last {age:?}"),
                OffsetReset::None => "nowhere: auto.offset.reset is none".to_owned(),
            };
            tracing::warn!(
                client_id = cluster.client_id(),
                ?old,
                ?new,
                partitions,
                continues,
                "topic {topic}: the topic was deleted and created again: positions in the old topic are dropped"
            );
            for (partition, offset) in positions {
                let reason = format!("topic {topic} was deleted and created again: its id was {old:?} and is {new:?}");
                cluster.metrics().emit(|| Event::OffsetReset { partition, offset, reason });
            }
        }
        self.notify_tasks();
        self.notify_poll();
    }

    /// Removes the offsets of deleted topics. A commit contains only the topic name, so it would apply to a new topic
    /// of that name if one is created before the commit arrives.
    pub(crate) fn of_known_topics(&self, mut offsets: Offsets, metadata: &Metadata) -> Offsets {
        let state = self.lock();
        let is_known = |tp: &TopicPartition| match state.cursors.get(tp) {
            Some(cursor) if !cursor.topic_id.is_zero() => {
                metadata.topic(&tp.topic).is_some_and(|topic| !cursor.is_of_another_topic(topic.topic_id))
            }
            _ => true,
        };
        offsets.retain(|(tp, _)| is_known(tp));
        offsets
    }

    /// Takes the partitions of recreated topics whose stored and committed offsets belong to the old topic.
    pub(crate) fn take_uncommittable(&self) -> Vec<TopicPartition> {
        std::mem::take(&mut self.lock().old_topics.uncommittable).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use samsarrow_wire::messages::MetadataResponse;
    use samsarrow_wire::messages::metadata::{MetadataResponsePartition, MetadataResponseTopic};

    use super::super::cursor::Start;
    use super::super::rows::RowsEnd;
    use super::*;
    use crate::cluster::metadata::RequestedTopics;
    use crate::types::OffsetAndMetadata;

    fn with_id(known: &Metadata, id: u8) -> Metadata {
        let partitions = vec![MetadataResponsePartition::default()];
        let topic = MetadataResponseTopic {
            name: Some("t".into()),
            topic_id: Uuid([id; 16]),
            partitions,
            ..Default::default()
        };
        known.updated(MetadataResponse { topics: vec![topic], ..Default::default() }, RequestedTopics::All)
    }

    #[test]
    fn commits_rows_of_a_recreated_topic_up_to_its_position() {
        let (shared, tp, _) = Shared::at_start(64 << 20);
        {
            let mut state = shared.lock();
            state.cursors.get_mut(&tp).unwrap().topic_id = Uuid([1; 16]);
            state.compare_topic_ids(&with_id(&Metadata::default(), 2), OffsetReset::Earliest);
            state.cursors.get_mut(&tp).unwrap().position = Some(10);
        }
        let committed = |offset| {
            let at = OffsetAndMetadata { offset, ..Default::default() };
            shared.past_rowless(BTreeMap::from([(tp.clone(), RowsEnd { at, topic_id: Uuid::ZERO })])).len()
        };
        assert_eq!((committed(100), committed(10)), (0, 1));
    }

    fn offsets(shared: &Shared, metadata: &Metadata) -> usize {
        let tp = TopicPartition::new("t", 0);
        shared.of_known_topics(vec![(tp, OffsetAndMetadata { offset: 7, ..Default::default() })], metadata).len()
    }

    #[test]
    fn drops_positions_of_a_recreated_topic() {
        let (shared, tp, version) = Shared::at_start(64 << 20);
        let old = with_id(&Metadata::default(), 1);
        let new = with_id(&old, 2);
        let deleted = old.without(&["t".to_owned()]);
        let compare = |metadata: &Metadata| {
            let mut state = shared.lock();
            state.compare_topic_ids(metadata, OffsetReset::Earliest);
            let cursor = &state.cursors[&tp];
            (cursor.version == version, cursor.position)
        };
        // Before the first response, it is unknown which of the two topics the position belongs to.
        assert_eq!([compare(&old), compare(&new)], [(true, Some(0)); 2]);
        shared.lock().cursors.get_mut(&tp).unwrap().topic_id = Uuid([2; 16]);
        assert_eq!(
            [compare(&new), compare(&deleted), compare(&old)],
            [(true, Some(0)); 3],
            "old snapshots are ignored"
        );
        let (recreated_again, no_ids) = (with_id(&new, 3), with_id(&new, 0));
        assert_eq!(compare(&no_ids), (true, Some(0)));
        assert_eq!(
            [&recreated_again, &deleted, &new, &no_ids].map(|metadata| offsets(&shared, metadata)),
            [0, 0, 1, 1]
        );
        assert_eq!(compare(&recreated_again), (false, None));
        assert_eq!(shared.take_uncommittable(), std::slice::from_ref(&tp));
        assert_eq!(shared.take_uncommittable(), []);
        let state = shared.lock();
        assert_eq!((state.cursors[&tp].start, state.cursors[&tp].topic_id), (Start::Reset, Uuid([3; 16])));
    }

    #[test]
    fn reassigned_partition_of_a_recreated_topic_ignores_the_commit() {
        let (shared, tp, _) = Shared::at_start(64 << 20);
        let old = with_id(&Metadata::default(), 1);
        let start = |metadata: &Metadata| {
            let mut state = shared.lock();
            state.compare_topic_ids(metadata, OffsetReset::Earliest);
            state.cursors[&tp].start
        };
        shared.lock().cursors.get_mut(&tp).unwrap().topic_id = Uuid([1; 16]);
        for (metadata, expected) in [(&old, Start::Committed), (&with_id(&old, 2), Start::Reset)] {
            shared.assign(&[]);
            shared.assign(std::slice::from_ref(&tp));
            assert_eq!(start(metadata), expected);
        }
        // After this restart, the group's offsets belong to the new topic.
        shared.assign(&[]);
        shared.assign(std::slice::from_ref(&tp));
        assert_eq!(start(&with_id(&with_id(&old, 2), 2)), Start::Committed);
    }
}
