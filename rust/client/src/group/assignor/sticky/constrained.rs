//! Sticky assignment of members with equal subscriptions: each member gets the minimum quota of partitions, and some
//! members get one partition more.

use super::Mismatched;
use super::previous_owners::PreviousOwners;
use super::racks::Racks;
use crate::error::{Error, Result};
use crate::group::assignor::group::Group;

/// Returns the partitions by member.
pub(super) fn assign(
    group: &Group<'_>,
    owners: &PreviousOwners,
    racks: &Racks<'_>,
    mismatched: Mismatched,
) -> Result<Vec<Vec<usize>>> {
    let mut quotas = QuotaAssignment::new(group);
    quotas.keep_owned(group, owners, racks, mismatched);
    let mut unassigned = quotas.unassigned(group);
    racks.sort_hardest_first(&mut unassigned);
    if racks.relevant {
        quotas.fill_in_racks(&mut unassigned, racks);
    }
    quotas.fill(&unassigned)?;
    Ok(quotas.assigned)
}

struct QuotaAssignment {
    assigned: Vec<Vec<usize>>,
    /// Minimum number of partitions per member.
    min_quota: usize,
    /// Number of members that get one partition more than the minimum quota, and the number of members that already
    /// have more than the minimum quota.
    expected_over_min: usize,
    over_min: usize,
    /// Members below the minimum quota, and members at the minimum quota that may get one partition more.
    below_min: Vec<usize>,
    at_min: Vec<usize>,
}

impl QuotaAssignment {
    fn new(group: &Group<'_>) -> QuotaAssignment {
        let (partitions, members) = (group.partitions(), group.members.len().max(1));
        QuotaAssignment {
            assigned: vec![Vec::new(); group.members.len()],
            min_quota: partitions / members,
            expected_over_min: partitions % members,
            over_min: 0,
            below_min: Vec::new(),
            at_min: Vec::new(),
        }
    }

    /// Keeps the previous partitions of each member up to its quota.
    fn keep_owned(&mut self, group: &Group<'_>, owners: &PreviousOwners, racks: &Racks<'_>, mismatched: Mismatched) {
        for (member, mut owned) in owners.by_member(group.members.len()).into_iter().enumerate() {
            owned.retain(|partition| mismatched == Mismatched::Kept || !racks.mismatch(member, *partition));
            // Keeps low partition numbers of all topics rather than all partitions of the first topics.
            owned.sort_by_key(|partition| (group.index_in_topic(*partition), *partition));
            if owned.len() < self.min_quota {
                self.below_min.push(member);
            } else if owned.len() > self.min_quota && self.over_min < self.expected_over_min {
                owned.truncate(self.min_quota + 1);
                self.count_over_min();
            } else {
                owned.truncate(self.min_quota);
                if self.over_min < self.expected_over_min {
                    self.at_min.push(member);
                }
            }
            self.assigned[member] = owned;
        }
    }

    /// Counts a member above the minimum. Once all extra partitions are assigned, members at the minimum are complete.
    fn count_over_min(&mut self) {
        self.over_min += 1;
        if self.over_min == self.expected_over_min {
            self.at_min.clear();
        }
    }

    fn unassigned(&self, group: &Group<'_>) -> Vec<usize> {
        let mut unassigned = vec![true; group.partitions()];
        for partition in self.assigned.iter().flatten() {
            unassigned[*partition] = false;
        }
        (0..unassigned.len()).filter(|partition| unassigned[*partition]).collect()
    }

    /// Assigns partitions in turn to members in the racks of their replicas. Partitions without such a member stay in
    /// `unassigned`.
    fn fill_in_racks(&mut self, unassigned: &mut Vec<usize>, racks: &Racks<'_>) {
        let mut turn = 0;
        unassigned.retain(|partition| {
            if let Some(position) = racks.next_match(*partition, &self.below_min, turn) {
                let member = self.below_min[position];
                self.assigned[member].push(*partition);
                turn = if self.assigned[member].len() < self.min_quota {
                    position + 1
                } else {
                    self.below_min.remove(position);
                    if self.over_min < self.expected_over_min {
                        self.at_min.push(member);
                    }
                    position
                };
                if turn >= self.below_min.len() {
                    turn = 0;
                }
                return false;
            }
            match racks.next_match(*partition, &self.at_min, 0) {
                Some(position) => {
                    let member = self.at_min.remove(position);
                    self.assigned[member].push(*partition);
                    self.count_over_min();
                    false
                }
                None => true,
            }
        });
    }

    /// Assigns the remaining partitions in turn: first up to the minimum quota, then one extra partition per member.
    fn fill(&mut self, unassigned: &[usize]) -> Result<()> {
        let mut remaining = unassigned.iter();
        while !self.below_min.is_empty() {
            let mut still_below_min = Vec::new();
            for member in std::mem::take(&mut self.below_min) {
                let partitions = &mut self.assigned[member];
                partitions.push(*remaining.next().ok_or_else(quotas_do_not_add_up)?);
                if partitions.len() < self.min_quota {
                    still_below_min.push(member);
                } else {
                    self.at_min.push(member);
                }
            }
            self.below_min = still_below_min;
        }
        let mut receivers = self.at_min.iter();
        for partition in remaining {
            let member = receivers.next().ok_or_else(quotas_do_not_add_up)?;
            self.assigned[*member].push(*partition);
        }
        Ok(())
    }
}

/// Returns the error for inconsistent quotas. Such quotas would be a bug of this assignor, and an error is better than
/// a wrong assignment.
fn quotas_do_not_add_up() -> Error {
    Error::corrupt("the shares of the group's members do not add up to the partitions: please report this")
}
