//! Range assignor: divides each topic into ranges, so that topics with the same number of partitions are divided
//! equally and partitions with the same number are assigned to the same member.

use std::collections::BTreeMap;

use super::group::{Group, Topic, racks_relevant};
use super::{Assignment, Assignor, Members, Topics};
use crate::error::Result;

/// Assigns a range of each topic to each member. Prefers members in the racks of the replicas as long as this does not
/// change the number of partitions per member (KIP-881).
#[derive(Debug, Clone, Copy, Default)]
pub struct Range;

impl Assignor for Range {
    fn name(&self) -> &str {
        "range"
    }

    fn assign(&self, topics: &Topics, members: &Members) -> Result<Assignment> {
        let group = Group::new(topics, members);
        let ranks = group.ranks();
        let mut topic_assignments: Vec<_> =
            group.topics.iter().map(|topic| TopicAssignment::new(&group, topic, &ranks)).collect();
        let mut assigned = vec![Vec::new(); group.members.len()];
        if topic_assignments.iter().any(|topic_assignment| topic_assignment.racks_relevant) {
            assign_in_racks(&mut topic_assignments, &mut assigned);
        }
        for topic_assignment in &mut topic_assignments {
            topic_assignment.assign_ranges(false, &mut assigned);
        }
        Ok(group.to_assignment(assigned))
    }
}

/// Partial assignment of one topic.
struct TopicAssignment<'a> {
    topic: &'a Topic<'a>,
    /// Subscribed members, ordered by rank.
    consumers: Vec<ConsumerState<'a>>,
    unassigned: Vec<usize>,
    /// Minimum number of partitions per member, and the number of members that may still get one partition more.
    per_consumer: usize,
    remaining_extras: usize,
    racks_relevant: bool,
}

struct ConsumerState<'a> {
    member: usize,
    rack: Option<&'a str>,
    assigned: usize,
}

impl<'a> TopicAssignment<'a> {
    fn new(group: &Group<'a>, topic: &'a Topic<'a>, ranks: &[usize]) -> TopicAssignment<'a> {
        let consumer = |member: &usize| ConsumerState { member: *member, rack: group.rack(*member), assigned: 0 };
        let mut consumers: Vec<_> = topic.subscribers.iter().map(consumer).collect();
        consumers.sort_by_key(|consumer| ranks[consumer.member]);
        let racks_relevant = racks_relevant(
            consumers.iter().filter_map(|consumer| consumer.rack),
            topic.racks.iter().map(Vec::as_slice),
        );
        let (count, members) = (topic.racks.len(), consumers.len().max(1));
        let unassigned = topic.partitions().collect();
        TopicAssignment {
            topic,
            consumers,
            unassigned,
            per_consumer: count / members,
            remaining_extras: count % members,
            racks_relevant,
        }
    }

    /// Returns true if a member is in the rack of a replica. A member without a rack matches every partition.
    fn in_rack(&self, consumer: usize, partition: usize) -> bool {
        let racks = &self.topic.racks[partition - self.topic.first];
        self.consumers[consumer].rack.is_none_or(|rack| racks.iter().any(|other| other == rack))
    }

    /// Returns the number of partitions that a member may still get.
    fn capacity(&self, consumer: usize) -> usize {
        (self.per_consumer + usize::from(self.remaining_extras > 0)).saturating_sub(self.consumers[consumer].assigned)
    }

    fn assign(&mut self, consumer: usize, partitions: &[usize], assigned: &mut [Vec<usize>]) {
        let state = &mut self.consumers[consumer];
        state.assigned += partitions.len();
        if state.assigned > self.per_consumer {
            self.remaining_extras = self.remaining_extras.saturating_sub(1);
        }
        assigned[state.member].extend_from_slice(partitions);
    }

    /// Assigns each member the first unassigned partitions, up to its capacity.
    fn assign_ranges(&mut self, in_rack: bool, assigned: &mut [Vec<usize>]) {
        for consumer in 0..self.consumers.len() {
            let mut capacity = self.capacity(consumer);
            let fits = |partition: &usize| {
                let fits = capacity > 0 && (!in_rack || self.in_rack(consumer, *partition));
                capacity -= usize::from(fits);
                fits
            };
            let (taken, rest): (Vec<_>, Vec<_>) = self.unassigned.iter().copied().partition(fits);
            self.unassigned = rest;
            if !taken.is_empty() {
                self.assign(consumer, &taken, assigned);
            }
        }
    }
}

/// Assigns partitions to members in the racks of the replicas as long as this does not change the number of partitions
/// per member. Topics with the same subscribers and number of partitions are co-partitioned: a partition number is
/// assigned to a member that matches in all these topics, or stays unassigned.
fn assign_in_racks(topic_assignments: &mut [TopicAssignment<'_>], assigned: &mut [Vec<usize>]) {
    let mut copartitioned: BTreeMap<(Vec<usize>, usize), Vec<&mut TopicAssignment<'_>>> = BTreeMap::new();
    for topic_assignment in topic_assignments {
        let key = (topic_assignment.topic.subscribers.clone(), topic_assignment.topic.racks.len());
        copartitioned.entry(key).or_default().push(topic_assignment);
    }
    for ((_, partitions), mut topic_assignments) in copartitioned {
        match topic_assignments.as_mut_slice() {
            [single] if single.racks_relevant => single.assign_ranges(true, assigned),
            [_] => {}
            several => assign_together(several, partitions, assigned),
        }
    }
}

fn assign_together(topic_assignments: &mut [&mut TopicAssignment<'_>], partitions: usize, assigned: &mut [Vec<usize>]) {
    let Some(first) = topic_assignments.first() else { return };
    // If no member has a rack, all partitions are assigned as ranges later.
    if first.consumers.iter().all(|consumer| consumer.rack.is_none()) {
        return;
    }
    let mut open: Vec<usize> = (0..first.consumers.len()).collect();
    for index in 0..partitions {
        let fits = |consumer: &usize| {
            topic_assignments.iter().all(|d| d.capacity(*consumer) > 0 && d.in_rack(*consumer, d.topic.first + index))
        };
        let Some(consumer) = open.iter().copied().find(fits) else { continue };
        for topic_assignment in topic_assignments.iter_mut() {
            let partition = topic_assignment.topic.first + index;
            topic_assignment.assign(consumer, &[partition], assigned);
            if let Ok(position) = topic_assignment.unassigned.binary_search(&partition) {
                topic_assignment.unassigned.remove(position);
            }
        }
        if topic_assignments.iter().all(|topic_assignment| topic_assignment.capacity(consumer) == 0) {
            open.retain(|other| *other != consumer);
        }
    }
}
