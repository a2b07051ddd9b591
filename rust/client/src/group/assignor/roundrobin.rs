//! The round robin assignor: all partitions of all topics in a row, dealt to the members in turn.

use super::group::Group;
use super::{Assignment, Assignor, Members, Topics};
use crate::error::Result;

/// Deals partitions in turn, passing over members that do not want the topic.
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
        // The place of the member whose turn it is.
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
