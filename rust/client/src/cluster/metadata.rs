//! Immutable snapshot of brokers, topics and partition leaders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{MetadataResponse, Uuid};

use crate::collections::{HashMap, HashSet};
use crate::types::TopicPartition;

/// Leader of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leader {
    /// Broker id.
    pub node: i32,
    /// Leader epoch, which increases with each election (KIP-320); −1 if the broker does not report it.
    pub epoch: i32,
}

/// Metadata of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// Partition number.
    pub partition: i32,
    /// Broker id of the leader, −1 if there is none.
    pub leader: i32,
    /// Leader epoch, −1 if unknown.
    pub leader_epoch: i32,
    /// Broker ids of the replicas. Partitions with equal replicas share one list.
    pub replicas: Arc<[i32]>,
}

/// Metadata of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMetadata {
    /// Topic name.
    pub name: String,
    /// Topic id, zero if brokers do not report ids.
    pub topic_id: Uuid,
    /// True for Kafka's internal topics.
    pub internal: bool,
    /// Partitions, sorted by number.
    pub partitions: Vec<PartitionMetadata>,
}

impl TopicMetadata {
    /// Returns a partition by number.
    pub fn partition(&self, partition: i32) -> Option<&PartitionMetadata> {
        // Partition numbers are consecutive, unless a broker omits partitions.
        let expected = usize::try_from(partition).ok().and_then(|index| self.partitions.get(index));
        if let Some(metadata) = expected.filter(|metadata| metadata.partition == partition) {
            return Some(metadata);
        }
        let index = self.partitions.binary_search_by_key(&partition, |p| p.partition).ok()?;
        self.partitions.get(index)
    }
}

/// Snapshot of the cluster's metadata.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    /// Number of this snapshot, which increases with each change.
    pub generation: u64,
    /// Addresses as `host:port`, by broker id.
    pub brokers: BTreeMap<i32, String>,
    /// Racks by broker id. Brokers without a rack are missing.
    pub racks: BTreeMap<i32, String>,
    /// Broker id of the controller, −1 if unknown.
    pub controller: i32,
    /// Id of the cluster, if a broker has reported it.
    pub(crate) cluster_id: Option<Arc<str>>,
    /// Existing topics by name. Snapshots share the topics that did not change.
    topics: HashMap<Arc<str>, Arc<TopicMetadata>>,
    errors: HashMap<String, ErrorCode>,
    names: HashMap<Uuid, Arc<str>>,
}

/// Topics of a Metadata request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestedTopics<'a> {
    /// All topics.
    All,
    /// Only these topics; other topics in the response are ignored.
    Topics(&'a BTreeSet<String>),
}

/// Metadata response, converted to the types of [`Metadata`]. The conversion takes most of the time for a large
/// response, and requires no lock.
#[derive(Debug)]
pub(crate) struct MetadataUpdate {
    brokers: BTreeMap<i32, String>,
    racks: BTreeMap<i32, String>,
    controller: i32,
    cluster_id: Option<String>,
    /// Requested topics by name, each with its metadata or error.
    topics: Vec<(String, std::result::Result<TopicMetadata, ErrorCode>)>,
}

impl MetadataUpdate {
    pub(crate) fn new(response: MetadataResponse, requested: RequestedTopics<'_>) -> Self {
        let racks = response.brokers.iter().filter_map(|b| Some((b.node_id, b.rack.clone()?))).collect();
        let brokers = response.brokers.into_iter().map(|b| (b.node_id, format!("{}:{}", b.host, b.port))).collect();
        let mut replica_lists = HashSet::default();
        let mut topics = Vec::new();
        for topic in response.topics {
            let is_requested = |name: &String| match requested {
                RequestedTopics::All => true,
                RequestedTopics::Topics(names) => names.contains(name),
            };
            // Topics that were not requested are ignored, because a broker may report more topics than a request names.
            let Some(name) = topic.name.filter(is_requested) else { continue };
            if let Err(code) = ErrorCode::from_i16(topic.error_code).ok() {
                topics.push((name, Err(code)));
                continue;
            }
            let reported = topic.partitions.into_iter().map(|p| PartitionMetadata {
                partition: p.partition_index,
                leader: p.leader_id,
                leader_epoch: p.leader_epoch,
                replicas: intern_replicas(&mut replica_lists, &p.replica_nodes),
            });
            let mut partitions: Vec<PartitionMetadata> = reported.collect();
            partitions.sort_by_key(|p| p.partition);
            partitions.dedup_by_key(|p| p.partition);
            partitions.shrink_to_fit();
            let (topic_id, internal) = (topic.topic_id, topic.is_internal);
            topics.push((name.clone(), Ok(TopicMetadata { name, topic_id, internal, partitions })));
        }
        Self { brokers, racks, controller: response.controller_id, cluster_id: response.cluster_id, topics }
    }
}

/// Leader of a partition in a Produce or Fetch response (KIP-951).
#[derive(Debug, Clone)]
pub struct ReportedLeader {
    /// Partition.
    pub tp: TopicPartition,
    /// Id of the topic that the request was for; zero if the request had none.
    pub topic_id: Uuid,
    /// Leader.
    pub leader: Leader,
}

impl Metadata {
    /// Returns the metadata of a topic, if it exists.
    pub fn topic(&self, name: &str) -> Option<&TopicMetadata> {
        self.topics.get(name).map(|topic| &**topic)
    }

    /// Returns the last error that a broker reported for a topic.
    pub fn topic_error(&self, name: &str) -> Option<ErrorCode> {
        self.errors.get(name).copied()
    }

    /// Returns all known topics.
    pub fn topics(&self) -> impl Iterator<Item = &TopicMetadata> {
        self.topics.values().map(|topic| &**topic)
    }

    /// Returns the name of the topic with this id.
    pub fn topic_name(&self, id: &Uuid) -> Option<&str> {
        self.names.get(id).map(|name| &**name)
    }

    /// Returns the leader of a partition, if it is known.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<Leader> {
        let metadata = self.partition(topic, partition)?;
        (metadata.leader >= 0).then_some(Leader { node: metadata.leader, epoch: metadata.leader_epoch })
    }

    /// Returns the metadata of a partition, if its topic and the partition exist.
    pub fn partition(&self, topic: &str, partition: i32) -> Option<&PartitionMetadata> {
        self.topics.get(topic)?.partition(partition)
    }

    /// Returns this snapshot with a response applied. Topics that were not requested are kept.
    #[cfg(test)]
    pub(crate) fn updated(&self, response: MetadataResponse, requested: RequestedTopics<'_>) -> Metadata {
        self.with(MetadataUpdate::new(response, requested), requested)
    }

    /// Returns this snapshot with an update applied. Topics that were not requested are kept.
    pub(crate) fn with(&self, update: MetadataUpdate, requested: RequestedTopics<'_>) -> Metadata {
        let mut next = self.clone();
        if let RequestedTopics::All = requested {
            let reported: HashSet<&str> = update.topics.iter().map(|(name, _)| &**name).collect();
            next.topics.retain(|name, _| reported.contains(&**name));
            next.names.retain(|_, name| reported.contains(&**name));
        }
        next.generation += 1;
        next.controller = update.controller;
        if update.cluster_id.is_some() && update.cluster_id.as_deref() != self.cluster_id.as_deref() {
            next.cluster_id = update.cluster_id.map(Into::into);
        }
        if !update.brokers.is_empty() {
            (next.brokers, next.racks) = (update.brokers, update.racks);
        }
        for (name, topic) in update.topics {
            let mut topic = match topic {
                Ok(topic) => topic,
                Err(code) => {
                    // An error such as a pending leader election does not mean that the topic is gone.
                    let gone = !code.retriable() || code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
                    if gone {
                        next.remove(&name);
                    }
                    next.errors.insert(name, code);
                    continue;
                }
            };
            let old = self.topics.get(&*name).filter(|old| old.topic_id == topic.topic_id);
            for partition in &mut topic.partitions {
                let known = old.and_then(|old| old.partition(partition.partition));
                // A broker with stale metadata may report the previous leader, which is recognized by its lower epoch
                // (KIP-320).
                if let Some(newer) =
                    known.filter(|known| known.leader_epoch > partition.leader_epoch && partition.leader_epoch >= 0)
                {
                    *partition = newer.clone();
                }
            }
            next.errors.remove(&name);
            if old.is_some_and(|old| **old == topic) {
                continue;
            }
            // A recreated topic has a new id, so the old id must be removed.
            next.remove(&name);
            let key: Arc<str> = name.into();
            if !topic.topic_id.is_zero() {
                next.names.insert(topic.topic_id, Arc::clone(&key));
            }
            next.topics.insert(key, Arc::new(topic));
        }
        next
    }

    /// Returns true if both snapshots have the same content. The comparison is fast if one snapshot is derived from the
    /// other, because they share unchanged topics.
    pub(crate) fn same_as(&self, other: &Metadata) -> bool {
        let unchanged = |(name, topic): (&Arc<str>, &Arc<TopicMetadata>)| {
            other.topics.get(name).is_some_and(|known| Arc::ptr_eq(known, topic) || known == topic)
        };
        self.brokers == other.brokers
            && self.racks == other.racks
            && self.controller == other.controller
            && self.cluster_id == other.cluster_id
            && self.errors == other.errors
            && self.topics.len() == other.topics.len()
            && self.topics.iter().all(unchanged)
    }

    /// Returns this snapshot without the given topics, which are no longer used.
    pub(crate) fn without(&self, names: &[String]) -> Metadata {
        let mut next = Metadata { generation: self.generation + 1, ..self.clone() };
        for name in names {
            next.remove(name);
            next.errors.remove(name);
        }
        next
    }

    /// Returns this snapshot without brokers. The next response adds the current brokers.
    pub(crate) fn without_brokers(&self) -> Metadata {
        let (brokers, racks) = (BTreeMap::new(), BTreeMap::new());
        Metadata { generation: self.generation + 1, brokers, racks, ..self.clone() }
    }

    fn remove(&mut self, name: &str) {
        if let Some(topic) = self.topics.remove(name) {
            self.names.remove(&topic.topic_id);
        }
    }

    /// Returns this snapshot with those `leaders` that have a newer epoch, and with the addresses of their brokers
    /// (KIP-951). Leaders of a topic that was recreated since are ignored: the epochs of the new topic start from zero,
    /// so the old epoch would hide all its leaders.
    ///
    /// Returns `None` if no leader has changed.
    pub(crate) fn with_leaders(&self, leaders: &[ReportedLeader], addresses: &[(i32, String)]) -> Option<Metadata> {
        let mut next: Option<Metadata> = None;
        for ReportedLeader { tp, topic_id, leader } in leaders {
            let recreated = |topic: &Arc<TopicMetadata>| {
                !topic_id.is_zero() && !topic.topic_id.is_zero() && topic.topic_id != *topic_id
            };
            if self.topics.get(&*tp.topic).is_some_and(recreated) {
                continue;
            }
            let address = addresses.iter().find(|(node, _)| *node == leader.node);
            let reachable = address.is_some() || self.brokers.contains_key(&leader.node);
            let newer = self.partition(&tp.topic, tp.partition).is_some_and(|known| leader.epoch > known.leader_epoch);
            if !newer || !reachable {
                continue;
            }
            let next = next.get_or_insert_with(|| Metadata { generation: self.generation + 1, ..self.clone() });
            next.brokers.extend(address.cloned());
            let topic = next.topics.get_mut(&*tp.topic);
            let topic = topic.map(Arc::make_mut).map(|topic| &mut topic.partitions);
            let partition = topic.and_then(|partitions| {
                let index = partitions.binary_search_by_key(&tp.partition, |p| p.partition).ok()?;
                partitions.get_mut(index)
            });
            if let Some(partition) = partition {
                partition.leader = leader.node;
                partition.leader_epoch = leader.epoch;
            }
        }
        next
    }
}

/// Returns a list of `nodes` that all partitions with equal replicas share.
fn intern_replicas(lists: &mut HashSet<Arc<[i32]>>, nodes: &[i32]) -> Arc<[i32]> {
    if let Some(known) = lists.get(nodes) {
        return Arc::clone(known);
    }
    let list: Arc<[i32]> = nodes.into();
    lists.insert(Arc::clone(&list));
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use samsarrow_wire::messages::metadata::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };

    fn response(error_code: i16, id: u8, leader_id: i32, leader_epoch: i32) -> MetadataResponse {
        let partition = MetadataResponsePartition { leader_id, leader_epoch, ..Default::default() };
        MetadataResponse {
            brokers: [1, 2]
                .map(|node_id| MetadataResponseBroker {
                    node_id,
                    host: "h".into(),
                    port: node_id,
                    ..Default::default()
                })
                .to_vec(),
            topics: vec![MetadataResponseTopic {
                error_code,
                name: Some("t".into()),
                topic_id: Uuid([id; 16]),
                partitions: if error_code == 0 { vec![partition] } else { vec![] },
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    #[test]
    fn older_leader_epoch_is_ignored() {
        let known = Metadata::default().updated(response(0, 1, 1, 5), RequestedTopics::All);
        assert_eq!(known.leader("t", 0), Some(Leader { node: 1, epoch: 5 }));
        assert_eq!(
            known.updated(response(0, 1, 2, 4), RequestedTopics::All).leader("t", 0),
            Some(Leader { node: 1, epoch: 5 })
        );
        assert_eq!(
            known.updated(response(0, 1, 2, 6), RequestedTopics::All).leader("t", 0),
            Some(Leader { node: 2, epoch: 6 })
        );
        // The topic was recreated, so its leader epochs start from zero.
        assert_eq!(
            known.updated(response(0, 2, 2, 0), RequestedTopics::All).leader("t", 0),
            Some(Leader { node: 2, epoch: 0 })
        );
    }

    #[test]
    fn retriable_errors_keep_the_topic() {
        let known = Metadata::default().updated(response(0, 1, 1, 5), RequestedTopics::All);
        let electing = known.updated(response(ErrorCode::LEADER_NOT_AVAILABLE.code(), 0, 0, 0), RequestedTopics::All);
        assert!(electing.topic("t").is_some());
        let gone = known.updated(response(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code(), 0, 0, 0), RequestedTopics::All);
        assert!(gone.topic("t").is_none());
        assert_eq!(gone.topic_error("t"), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        assert_eq!(gone.topic_name(&Uuid([1; 16])), None);
    }

    #[test]
    fn with_leaders_ignores_older_epochs_and_unknown_brokers() {
        let known = Metadata::default().updated(response(0, 1, 1, 5), RequestedTopics::All);
        let hint_of = |topic_id, node, epoch, addresses: &[(i32, String)]| {
            let reported = ReportedLeader { tp: TopicPartition::new("t", 0), topic_id, leader: Leader { node, epoch } };
            known.with_leaders(&[reported], addresses)
        };
        let hint = |node, epoch, addresses: &[(i32, String)]| hint_of(Uuid([1; 16]), node, epoch, addresses);
        assert!(hint(2, 5, &[]).is_none());
        assert!(hint(9, 6, &[]).is_none());
        assert_eq!(hint(2, 6, &[]).unwrap().leader("t", 0), Some(Leader { node: 2, epoch: 6 }));
        assert_eq!(hint_of(Uuid::ZERO, 2, 6, &[]).unwrap().leader("t", 0), Some(Leader { node: 2, epoch: 6 }));
        // The response concerns a topic with the same name that was deleted.
        assert!(hint_of(Uuid([2; 16]), 2, 6, &[]).is_none());
        let moved = hint(9, 6, &[(9, "new:1".into())]).unwrap();
        assert_eq!(moved.leader("t", 0), Some(Leader { node: 9, epoch: 6 }));
        assert_eq!(moved.brokers.get(&9).map(String::as_str), Some("new:1"));
    }

    #[test]
    fn updated_ignores_topics_not_requested() {
        let requested = BTreeSet::from(["other".to_owned()]);
        let known = Metadata::default().updated(response(0, 1, 1, 5), RequestedTopics::Topics(&requested));
        assert!(known.topic("t").is_none());
        assert_eq!(known.brokers.len(), 2);
    }

    #[test]
    fn unchanged_topics_are_shared_between_snapshots() {
        let known = Metadata::default().updated(response(0, 1, 1, 5), RequestedTopics::All);
        let again = known.updated(response(0, 1, 1, 5), RequestedTopics::All);
        assert!(Arc::ptr_eq(&known.topics["t"], &again.topics["t"]));
        assert!(known.same_as(&again) && again.generation > known.generation);
        assert!(!known.same_as(&known.updated(response(0, 1, 2, 6), RequestedTopics::All)));
        // The topic was recreated, so its old id is removed.
        let recreated = known.updated(response(0, 2, 1, 0), RequestedTopics::All);
        assert_eq!((recreated.topic_name(&Uuid([1; 16])), recreated.topic_name(&Uuid([2; 16]))), (None, Some("t")));
        let without = known.without(&["t".to_owned()]);
        assert!(without.topic("t").is_none() && without.topic_name(&Uuid([1; 16])).is_none());
    }

    #[test]
    fn equal_replica_lists_are_shared() {
        let mut response = response(0, 1, 1, 5);
        let partition =
            |n| MetadataResponsePartition { partition_index: n, replica_nodes: vec![n % 3, 7], ..Default::default() };
        response.topics[0].partitions = (0..300).map(partition).collect();
        let known = Metadata::default().updated(response, RequestedTopics::All);
        let partitions = &known.topic("t").unwrap().partitions;
        let lists: HashSet<*const i32> = partitions.iter().map(|p| p.replicas.as_ptr()).collect();
        assert_eq!((partitions.len(), lists.len()), (300, 3));
    }
}
