//! Brokers, topics, leaders: a snapshot that is replaced as a whole.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{MetadataResponse, Uuid};

use crate::types::TopicPartition;

/// Who leads a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leader {
    /// The broker's id.
    pub node: i32,
    /// Rises with each election (KIP-320); −1 where the broker does not report it.
    pub epoch: i32,
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// Its number.
    pub partition: i32,
    /// The leader's id, −1 for none.
    pub leader: i32,
    /// The leader's epoch, −1 for unknown.
    pub leader_epoch: i32,
    /// Brokers that hold it; partitions with the same ones share the list.
    pub replicas: Arc<[i32]>,
}

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMetadata {
    /// Its name.
    pub name: String,
    /// Its id, zero where brokers have none.
    pub topic_id: Uuid,
    /// Whether Kafka keeps it for itself.
    pub internal: bool,
    /// In the order of their numbers.
    pub partitions: Vec<PartitionMetadata>,
}

impl TopicMetadata {
    /// One partition.
    pub fn partition(&self, partition: i32) -> Option<&PartitionMetadata> {
        let at = self.partitions.binary_search_by_key(&partition, |p| p.partition).ok()?;
        self.partitions.get(at)
    }
}

/// What is known of the cluster.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    /// Rises with each answer.
    pub generation: u64,
    /// Host and port by id.
    pub brokers: BTreeMap<i32, String>,
    /// The rack of each broker that has one.
    pub racks: BTreeMap<i32, String>,
    /// The controller's id, −1 for unknown.
    pub controller: i32,
    /// Shared between snapshots as long as a topic does not change.
    topics: HashMap<Arc<str>, Arc<TopicMetadata>>,
    errors: HashMap<String, ErrorCode>,
    names: HashMap<Uuid, Arc<str>>,
}

/// What a Metadata request asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked<'a> {
    /// All topics.
    All,
    /// These; whatever else an answer brings is left out.
    Topics(&'a BTreeSet<String>),
}

impl Metadata {
    /// A topic that exists.
    pub fn topic(&self, name: &str) -> Option<&TopicMetadata> {
        self.topics.get(name).map(|topic| &**topic)
    }

    /// Why a topic is not there, if a broker said so.
    pub fn topic_error(&self, name: &str) -> Option<ErrorCode> {
        self.errors.get(name).copied()
    }

    /// All topics that are known.
    pub fn topics(&self) -> impl Iterator<Item = &TopicMetadata> {
        self.topics.values().map(|topic| &**topic)
    }

    /// The name that belongs to a topic id.
    pub fn topic_name(&self, id: &Uuid) -> Option<&str> {
        self.names.get(id).map(|name| &**name)
    }

    /// Who leads a partition, if it is known to have a leader.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<Leader> {
        let found = self.partition(topic, partition)?;
        (found.leader >= 0).then_some(Leader { node: found.leader, epoch: found.leader_epoch })
    }

    /// One partition.
    pub fn partition(&self, topic: &str, partition: i32) -> Option<&PartitionMetadata> {
        self.topics.get(topic)?.partition(partition)
    }

    /// This snapshot with an answer laid over it. Topics that were not asked for stay.
    pub(crate) fn updated(&self, answer: MetadataResponse, asked: Asked<'_>) -> Metadata {
        let mut next = self.clone();
        if let Asked::All = asked {
            let told: HashSet<&str> = answer.topics.iter().filter_map(|topic| topic.name.as_deref()).collect();
            next.topics.retain(|name, _| told.contains(&**name));
            next.names.retain(|_, name| told.contains(&**name));
        }
        next.generation += 1;
        next.controller = answer.controller_id;
        if !answer.brokers.is_empty() {
            next.racks = answer.brokers.iter().filter_map(|b| Some((b.node_id, b.rack.clone()?))).collect();
            next.brokers = answer.brokers.into_iter().map(|b| (b.node_id, format!("{}:{}", b.host, b.port))).collect();
        }
        let mut replica_lists = HashSet::new();
        for topic in answer.topics {
            let wanted = |name: &String| match asked {
                Asked::All => true,
                Asked::Topics(names) => names.contains(name),
            };
            let Some(name) = topic.name.filter(wanted) else { continue };
            if let Err(code) = ErrorCode::from_i16(topic.error_code).ok() {
                // A leader election in progress is no reason to forget the topic.
                let gone = !code.retriable() || code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
                if gone {
                    next.remove(&name);
                }
                next.errors.insert(name, code);
                continue;
            }
            let old = self.topics.get(&*name).filter(|old| old.topic_id == topic.topic_id);
            let told = topic.partitions.into_iter().map(|p| PartitionMetadata {
                partition: p.partition_index,
                leader: p.leader_id,
                leader_epoch: p.leader_epoch,
                replicas: shared(&mut replica_lists, &p.replica_nodes),
            });
            let mut partitions: Vec<PartitionMetadata> = told.collect();
            partitions.sort_by_key(|p| p.partition);
            partitions.dedup_by_key(|p| p.partition);
            partitions.shrink_to_fit();
            for partition in &mut partitions {
                let known = old.and_then(|old| old.partition(partition.partition));
                // A broker that lags behind may name the leader before; epochs show it (KIP-320).
                if let Some(newer) =
                    known.filter(|known| known.leader_epoch > partition.leader_epoch && partition.leader_epoch >= 0)
                {
                    *partition = newer.clone();
                }
            }
            next.errors.remove(&name);
            let key: Arc<str> = name.as_str().into();
            let topic = TopicMetadata { name, topic_id: topic.topic_id, internal: topic.is_internal, partitions };
            if old.is_some_and(|old| **old == topic) {
                continue;
            }
            // Made again: the id of before is nobody's.
            next.remove(&key);
            if !topic.topic_id.is_zero() {
                next.names.insert(topic.topic_id, Arc::clone(&key));
            }
            next.topics.insert(key, Arc::new(topic));
        }
        next
    }

    /// Whether another snapshot says the same; one that came of the other shares what did not change.
    pub(crate) fn same_as(&self, other: &Metadata) -> bool {
        let same = |(name, topic): (&Arc<str>, &Arc<TopicMetadata>)| {
            other.topics.get(name).is_some_and(|known| Arc::ptr_eq(known, topic) || known == topic)
        };
        self.brokers == other.brokers
            && self.racks == other.racks
            && self.controller == other.controller
            && self.errors == other.errors
            && self.topics.len() == other.topics.len()
            && self.topics.iter().all(same)
    }

    /// This snapshot without topics that nobody uses any more.
    pub(crate) fn without(&self, names: &[String]) -> Metadata {
        let mut next = Metadata { generation: self.generation + 1, ..self.clone() };
        for name in names {
            next.remove(name);
            next.errors.remove(name);
        }
        next
    }

    /// This snapshot with no brokers: anyone who answers next names them.
    pub(crate) fn without_brokers(&self) -> Metadata {
        let (brokers, racks) = (BTreeMap::new(), BTreeMap::new());
        Metadata { generation: self.generation + 1, brokers, racks, ..self.clone() }
    }

    fn remove(&mut self, name: &str) {
        if let Some(topic) = self.topics.remove(name) {
            self.names.remove(&topic.topic_id);
        }
    }

    /// This snapshot with other leaders, where their epochs are newer, and the addresses that came with them (KIP-951).
    pub(crate) fn with_leaders(
        &self,
        leaders: &[(TopicPartition, Leader)],
        addresses: &[(i32, String)],
    ) -> Option<Metadata> {
        let mut next: Option<Metadata> = None;
        for (tp, leader) in leaders {
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
            let found = topic.and_then(|partitions| {
                let at = partitions.binary_search_by_key(&tp.partition, |p| p.partition).ok()?;
                partitions.get_mut(at)
            });
            if let Some(found) = found {
                found.leader = leader.node;
                found.leader_epoch = leader.epoch;
            }
        }
        next
    }
}

/// A list of brokers, once for all partitions that they hold.
fn shared(lists: &mut HashSet<Arc<[i32]>>, nodes: &[i32]) -> Arc<[i32]> {
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

    fn answer(error_code: i16, id: u8, leader_id: i32, leader_epoch: i32) -> MetadataResponse {
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
    fn an_older_epoch_never_replaces_a_newer_one() {
        let known = Metadata::default().updated(answer(0, 1, 1, 5), Asked::All);
        assert_eq!(known.leader("t", 0), Some(Leader { node: 1, epoch: 5 }));
        assert_eq!(known.updated(answer(0, 1, 2, 4), Asked::All).leader("t", 0), Some(Leader { node: 1, epoch: 5 }));
        assert_eq!(known.updated(answer(0, 1, 2, 6), Asked::All).leader("t", 0), Some(Leader { node: 2, epoch: 6 }));
        // The topic was made anew: its epochs start again.
        assert_eq!(known.updated(answer(0, 2, 2, 0), Asked::All).leader("t", 0), Some(Leader { node: 2, epoch: 0 }));
    }

    #[test]
    fn errors_remove_a_topic_only_when_it_is_gone() {
        let known = Metadata::default().updated(answer(0, 1, 1, 5), Asked::All);
        let electing = known.updated(answer(ErrorCode::LEADER_NOT_AVAILABLE.code(), 0, 0, 0), Asked::All);
        assert!(electing.topic("t").is_some());
        let gone = known.updated(answer(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code(), 0, 0, 0), Asked::All);
        assert!(gone.topic("t").is_none());
        assert_eq!(gone.topic_error("t"), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        assert_eq!(gone.topic_name(&Uuid([1; 16])), None);
    }

    #[test]
    fn a_hint_moves_the_leader_forward_only() {
        let known = Metadata::default().updated(answer(0, 1, 1, 5), Asked::All);
        let hint = |node, epoch, addresses: &[(i32, String)]| {
            known.with_leaders(&[(TopicPartition::new("t", 0), Leader { node, epoch })], addresses)
        };
        assert!(hint(2, 5, &[]).is_none());
        assert!(hint(9, 6, &[]).is_none());
        assert_eq!(hint(2, 6, &[]).unwrap().leader("t", 0), Some(Leader { node: 2, epoch: 6 }));
        let moved = hint(9, 6, &[(9, "new:1".into())]).unwrap();
        assert_eq!(moved.leader("t", 0), Some(Leader { node: 9, epoch: 6 }));
        assert_eq!(moved.brokers.get(&9).map(String::as_str), Some("new:1"));
    }

    #[test]
    fn a_topic_that_was_not_asked_for_is_left_out() {
        let asked = BTreeSet::from(["other".to_owned()]);
        let known = Metadata::default().updated(answer(0, 1, 1, 5), Asked::Topics(&asked));
        assert!(known.topic("t").is_none());
        assert_eq!(known.brokers.len(), 2);
    }

    #[test]
    fn an_answer_that_says_nothing_new_shares_what_is_known() {
        let known = Metadata::default().updated(answer(0, 1, 1, 5), Asked::All);
        let again = known.updated(answer(0, 1, 1, 5), Asked::All);
        assert!(Arc::ptr_eq(&known.topics["t"], &again.topics["t"]));
        assert!(known.same_as(&again) && again.generation > known.generation);
        assert!(!known.same_as(&known.updated(answer(0, 1, 2, 6), Asked::All)));
        // Made again under another id: that of before names nothing.
        let anew = known.updated(answer(0, 2, 1, 0), Asked::All);
        assert_eq!((anew.topic_name(&Uuid([1; 16])), anew.topic_name(&Uuid([2; 16]))), (None, Some("t")));
        let without = known.without(&["t".to_owned()]);
        assert!(without.topic("t").is_none() && without.topic_name(&Uuid([1; 16])).is_none());
    }

    #[test]
    fn partitions_with_the_same_replicas_share_one_list() {
        let mut told = answer(0, 1, 1, 5);
        let partition =
            |n| MetadataResponsePartition { partition_index: n, replica_nodes: vec![n % 3, 7], ..Default::default() };
        told.topics[0].partitions = (0..300).map(partition).collect();
        let known = Metadata::default().updated(told, Asked::All);
        let partitions = &known.topic("t").unwrap().partitions;
        let lists: HashSet<*const i32> = partitions.iter().map(|p| p.replicas.as_ptr()).collect();
        assert_eq!((partitions.len(), lists.len()), (300, 3));
    }
}
