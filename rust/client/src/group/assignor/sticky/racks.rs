//! Rack awareness of the sticky assignors (KIP-881).

use std::collections::BTreeMap;

use crate::group::assignor::group::{Group, racks_relevant};

/// Racks of members and replicas. Racks are ignored if they do not affect the assignment.
#[derive(Debug)]
pub(super) struct Racks<'a> {
    group: &'a Group<'a>,
    pub(super) relevant: bool,
}

impl<'a> Racks<'a> {
    pub(super) fn new(group: &'a Group<'a>) -> Racks<'a> {
        let members = (0..group.members.len()).filter_map(|member| group.rack(member));
        let relevant = racks_relevant(members, (0..group.partitions()).map(|partition| group.racks(partition)));
        Racks { group, relevant }
    }

    fn has_replica(&self, rack: &str, partition: usize) -> bool {
        self.group.racks(partition).iter().any(|other| other == rack)
    }

    /// Returns true if a member is in a rack without a replica of the partition. Returns false for a member without a
    /// rack.
    pub(super) fn mismatch(&self, member: usize, partition: usize) -> bool {
        self.relevant && self.group.rack(member).is_some_and(|rack| !self.has_replica(rack, partition))
    }

    /// Returns the number of partitions whose owner is in the rack of a replica or has no rack.
    pub(super) fn matches(&self, assigned: &[Vec<usize>]) -> usize {
        let matching =
            |member: usize, of_member: &Vec<usize>| of_member.iter().filter(|p| !self.mismatch(member, **p)).count();
        assigned.iter().enumerate().map(|(member, of_member)| matching(member, of_member)).sum()
    }

    /// Returns the index in `members` of the next member in the rack of a replica, searching circularly from `from`.
    pub(super) fn next_match(&self, partition: usize, members: &[usize], from: usize) -> Option<usize> {
        let matches = |position: &usize| {
            self.group.rack(members[*position]).is_some_and(|rack| self.has_replica(rack, partition))
        };
        if !self.relevant {
            return None;
        }
        (from..members.len()).find(matches).or_else(|| (0..from.min(members.len())).find(matches))
    }

    /// Sorts partitions by the number of members in the racks of their replicas, fewest first, because these are
    /// hardest to assign.
    pub(super) fn sort_hardest_first(&self, partitions: &mut [usize]) {
        if !self.relevant {
            return;
        }
        let mut members: BTreeMap<&str, usize> = BTreeMap::new();
        for rack in (0..self.group.members.len()).filter_map(|member| self.group.rack(member)) {
            *members.entry(rack).or_default() += 1;
        }
        partitions.sort_by_cached_key(|partition| {
            let mut racks: Vec<&str> = self.group.racks(*partition).iter().map(String::as_str).collect();
            racks.sort_unstable();
            racks.dedup();
            racks.into_iter().filter_map(|rack| members.get(rack)).sum::<usize>()
        });
    }
}
