//! Round robin assignor: assigns the partitions of all topics to the members in turn.

use super::group::Group;
use super::{Assignment, Assignor, Members, Topics};
use crate::error::Result;

/// Assigns partitions in turn, skipping members that are not subscribed to the topic.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoundRobin;

impl Assignor for RoundRobin {
    fn name(&self) -> &str {
        "roundrobin"
    }

    fn assign(&self, topics: &Topics, members: &Members) -> Result<Assignment> {
        let group = Group::new(topics, members);
        let ranks = group.ranks();
        let mut assigned = vec![Vec::new(); group.members.len()];
        // Rank of the next member.
        let mut next_rank = 0;
        for topic in &group.topics {
            let mut subscribers: Vec<(usize, usize)> = topic.subscribers.iter().map(|m| (ranks[*m], *m)).collect();
            subscribers.sort_unstable();
            for partition in topic.partitions() {
                let next = subscribers.partition_point(|(rank, _)| *rank < next_rank);
                if let Some((rank, member)) = subscribers.get(next).or(subscribers.first()) {
                    assigned[*member].push(partition);
                    next_rank = rank + 1;
                }
            }
        }
        Ok(group.to_assignment(assigned))
    }
}
