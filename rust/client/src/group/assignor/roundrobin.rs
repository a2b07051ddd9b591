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
        let mut turn = 0;
        for topic in &group.topics {
            let mut takers: Vec<(usize, usize)> = topic.subscribers.iter().map(|m| (ranks[*m], *m)).collect();
            takers.sort_unstable();
            for partition in topic.partitions() {
                let next = takers.partition_point(|(rank, _)| *rank < turn);
                if let Some((rank, member)) = takers.get(next).or(takers.first()) {
                    assigned[*member].push(partition);
                    turn = rank + 1;
                }
            }
        }
        Ok(group.named(assigned))
    }
}
