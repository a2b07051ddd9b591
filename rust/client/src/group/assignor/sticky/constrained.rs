//! Sticky assignment of members with equal subscriptions: each gets the minimum quota, and some get one more.

use super::Far;
use super::previous_owners::Claims;
use super::racks::Racks;
use crate::error::{Error, Result};
use crate::group::assignor::group::Group;

/// Returns the partitions by member.
pub(super) fn assign(group: &Group<'_>, claims: &Claims, racks: &Racks<'_>, far: Far) -> Result<Vec<Vec<usize>>> {
    let mut shares = Shares::new(group);
    shares.keep_owned(group, claims, racks, far);
    let mut unassigned = shares.unassigned(group);
    racks.sort_hardest_first(&mut unassigned);
    if racks.matter {
        shares.fill_in_racks(&mut unassigned, racks);
    }
    shares.fill(&unassigned)?;
    Ok(shares.assigned)
}

struct Shares {
    assigned: Vec<Vec<usize>>,
    /// Minimum number of partitions per member.
    least: usize,
    /// Number of members that get one more, and of those that already have.
    extras: usize,
    with_extra: usize,
    /// Members below the minimum quota, and members at it that may get one more.
    below: Vec<usize>,
    at_least: Vec<usize>,
}

impl Shares {
    fn new(group: &Group<'_>) -> Shares {
        let (partitions, members) = (group.partitions(), group.members.len().max(1));
        Shares {
            assigned: vec![Vec::new(); group.members.len()],
            least: partitions / members,
            extras: partitions % members,
            with_extra: 0,
            below: Vec::new(),
            at_least: Vec::new(),
        }
    }

    /// Keeps the previous partitions of each member up to its quota.
    fn keep_owned(&mut self, group: &Group<'_>, claims: &Claims, racks: &Racks<'_>, far: Far) {
        for (member, mut owned) in claims.by_member(group.members.len()).into_iter().enumerate() {
            owned.retain(|partition| far == Far::Kept || !racks.mismatch(member, *partition));
            // Keeps low partition numbers of all topics rather than all partitions of the first topics.
            owned.sort_by_key(|partition| (group.index_in_topic(*partition), *partition));
            if owned.len() < self.least {
                self.below.push(member);
            } else if owned.len() > self.least && self.with_extra < self.extras {
                owned.truncate(self.least + 1);
                self.took_extra();
            } else {
                owned.truncate(self.least);
                if self.with_extra < self.extras {
                    self.at_least.push(member);
                }
            }
            self.assigned[member] = owned;
        }
    }

    /// Counts a member above the minimum. Once all extra partitions are assigned, members at the minimum are complete.
    fn took_extra(&mut self) {
        self.with_extra += 1;
        if self.with_extra == self.extras {
            self.at_least.clear();
        }
    }

    fn unassigned(&self, group: &Group<'_>) -> Vec<usize> {
        let mut free = vec![true; group.partitions()];
        for partition in self.assigned.iter().flatten() {
            free[*partition] = false;
        }
        (0..free.len()).filter(|partition| free[*partition]).collect()
    }

    /// Assigns partitions in turn to members in the racks of their replicas. Those without such a member stay in the
    /// list.
    fn fill_in_racks(&mut self, unassigned: &mut Vec<usize>, racks: &Racks<'_>) {
        let mut turn = 0;
        unassigned.retain(|partition| {
            if let Some(at) = racks.next_match(*partition, &self.below, turn) {
                let member = self.below[at];
                self.assigned[member].push(*partition);
                turn = if self.assigned[member].len() < self.least {
                    at + 1
                } else {
                    self.below.remove(at);
                    if self.with_extra < self.extras {
                        self.at_least.push(member);
                    }
                    at
                };
                if turn >= self.below.len() {
                    turn = 0;
                }
                return false;
            }
            match racks.next_match(*partition, &self.at_least, 0) {
                Some(at) => {
                    let member = self.at_least.remove(at);
                    self.assigned[member].push(*partition);
                    self.took_extra();
                    false
                }
                None => true,
            }
        });
    }

    /// Assigns the remaining partitions in turn: first up to the minimum quota, then one more each.
    fn fill(&mut self, unassigned: &[usize]) -> Result<()> {
        let mut rest = unassigned.iter();
        while !self.below.is_empty() {
            let mut still_below = Vec::new();
            for member in std::mem::take(&mut self.below) {
                let share = &mut self.assigned[member];
                share.push(*rest.next().ok_or_else(shares_do_not_add_up)?);
                if share.len() < self.least {
                    still_below.push(member);
                } else {
                    self.at_least.push(member);
                }
            }
            self.below = still_below;
        }
        let mut takers = self.at_least.iter();
        for partition in rest {
            let member = takers.next().ok_or_else(shares_do_not_add_up)?;
            self.assigned[*member].push(*partition);
        }
        Ok(())
    }
}

/// Returns the error of inconsistent quotas, which would be a bug: better reported than assigned.
fn shares_do_not_add_up() -> Error {
    Error::corrupt("the shares of the group's members do not add up to the partitions: please report this")
}
