//! Members, topics and partitions, which all assignors represent by indexes in name order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Assignment, Members, Subscription, Topics};
use crate::collections::HashMap;
use crate::types::TopicPartition;

/// An existing topic with subscribers.
#[derive(Debug)]
pub(super) struct Topic<'a> {
    pub(super) name: &'a str,
    /// Index of the topic's first partition. The other partitions of the topic have the following indexes.
    pub(super) first: usize,
    /// Racks of the replicas, by partition number.
    pub(super) racks: &'a [Vec<String>],
    /// Indexes of the subscribed members, ascending.
    pub(super) subscribers: Vec<usize>,
}

impl Topic<'_> {
    /// Returns the indexes of the topic's partitions.
    pub(super) fn partitions(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.racks.len()
    }

    pub(super) fn has_subscriber(&self, member: usize) -> bool {
        self.subscribers.binary_search(&member).is_ok()
    }
}

/// Input of an assignor. All indexes of members, topics and partitions are created here, so they are valid.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) members: Vec<(&'a str, &'a Subscription)>,
    pub(super) topics: Vec<Topic<'a>>,
    /// Index of the topic, by partition index.
    topic_of: Vec<usize>,
}

impl<'a> Group<'a> {
    pub(super) fn new(topics: &'a Topics, members: &'a Members) -> Group<'a> {
        let members: Vec<_> = members.iter().map(|(id, subscription)| (id.as_str(), subscription)).collect();
        let mut subscribers_by_topic: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (member, (_, subscription)) in members.iter().enumerate() {
            for topic in subscription.topics.iter().map(String::as_str).collect::<BTreeSet<_>>() {
                subscribers_by_topic.entry(topic).or_default().push(member);
            }
        }
        let mut group = Group { members, topics: Vec::new(), topic_of: Vec::new() };
        for (name, subscribers) in subscribers_by_topic {
            let Some(racks) = topics.get(name).filter(|partitions| !partitions.is_empty()) else { continue };
            let first = group.topic_of.len();
            group.topic_of.resize(first + racks.len(), group.topics.len());
            group.topics.push(Topic { name, first, racks, subscribers });
        }
        group
    }

    /// Returns the number of partitions, which is the upper bound of their indexes.
    pub(super) fn partitions(&self) -> usize {
        self.topic_of.len()
    }

    pub(super) fn topic_of(&self, partition: usize) -> &Topic<'a> {
        &self.topics[self.topic_of[partition]]
    }

    /// Returns the number of a partition within its topic.
    pub(super) fn index_in_topic(&self, partition: usize) -> usize {
        partition - self.topic_of(partition).first
    }

    /// Returns the racks of a partition's replicas.
    pub(super) fn racks(&self, partition: usize) -> &'a [String] {
        let topic = self.topic_of(partition);
        &topic.racks[partition - topic.first]
    }

    /// Returns the rack of a member. An empty name counts as no rack.
    pub(super) fn rack(&self, member: usize) -> Option<&'a str> {
        self.members[member].1.rack.as_deref().filter(|rack| !rack.is_empty())
    }

    /// Returns a lookup of partition indexes by topic name and partition number.
    pub(super) fn lookup(&self) -> Lookup<'_> {
        Lookup(self.topics.iter().map(|topic| (topic.name, topic)).collect())
    }

    /// Returns every member's rank in Kafka's order: static members by instance id, so that restarts with new member
    /// ids do not change the assignment (KIP-345), then other members by member id.
    pub(super) fn ranks(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.members.len()).collect();
        order.sort_by_key(|member| {
            let instance = self.members[*member].1.instance_id.as_deref();
            (instance.is_none(), instance, *member)
        });
        let mut ranks = vec![0; order.len()];
        for (rank, member) in order.into_iter().enumerate() {
            ranks[member] = rank;
        }
        ranks
    }

    /// Converts partition indexes by member index to an assignment with topic names and member ids.
    pub(super) fn to_assignment(&self, assigned: Vec<Vec<usize>>) -> Assignment {
        let names: Vec<Arc<str>> = self.topics.iter().map(|topic| topic.name.into()).collect();
        let topic_partition = |partition: usize| {
            let index = i32::try_from(self.index_in_topic(partition)).unwrap_or(i32::MAX);
            TopicPartition { topic: Arc::clone(&names[self.topic_of[partition]]), partition: index }
        };
        let of_member = |(member, mut partitions): (&(&str, &Subscription), Vec<usize>)| {
            partitions.sort_unstable();
            (member.0.to_owned(), partitions.into_iter().map(topic_partition).collect())
        };
        self.members.iter().zip(assigned).map(of_member).collect()
    }
}

/// Topics by name.
#[derive(Debug)]
pub(super) struct Lookup<'a>(HashMap<&'a str, &'a Topic<'a>>);

impl Lookup<'_> {
    /// Returns the index of a partition, or `None` if it does not exist or has no subscriber.
    pub(super) fn index(&self, partition: &TopicPartition) -> Option<usize> {
        let topic = self.0.get(&*partition.topic)?;
        let index = usize::try_from(partition.partition).ok()?;
        (index < topic.racks.len()).then_some(topic.first + index)
    }
}

/// Returns true if racks affect the assignment, that is, if a member is in the rack of a replica and not all partitions
/// have the same racks (KIP-881).
pub(super) fn racks_relevant<'a>(
    members: impl Iterator<Item = &'a str>,
    partitions: impl Iterator<Item = &'a [String]> + Clone,
) -> bool {
    let member_racks: BTreeSet<&str> = members.collect();
    if member_racks.is_empty() {
        return false;
    }
    let replica_racks: BTreeSet<&str> = partitions.clone().flatten().map(String::as_str).collect();
    let mut partitions = partitions;
    !member_racks.is_disjoint(&replica_racks)
        && partitions.any(|racks| racks.iter().map(String::as_str).collect::<BTreeSet<_>>() != replica_racks)
}
