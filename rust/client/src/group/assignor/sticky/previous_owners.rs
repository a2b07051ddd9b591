//! Previous owners of partitions, according to the members.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::assignor::Subscription;
use crate::group::assignor::encoding::{decode_generation, decode_previous};
use crate::group::assignor::group::Group;
use crate::types::TopicPartition;

/// Generation of members that do not report a generation.
const NO_GENERATION: i32 = -1;

/// Previous partitions reported by one member.
#[derive(Debug)]
pub(super) struct OwnershipReport {
    partitions: Vec<TopicPartition>,
    generation: i32,
}

impl OwnershipReport {
    /// Reads the user data of an eager member, which owns nothing when it joins. Invalid data counts as no partitions.
    pub(super) fn from_user_data(subscription: &Subscription) -> OwnershipReport {
        let previous = subscription.user_data.as_ref().and_then(decode_previous);
        let (partitions, generation) = previous.unwrap_or_default();
        OwnershipReport { partitions, generation: generation.unwrap_or(NO_GENERATION) }
    }

    /// Reads the owned partitions of a cooperative member. Older members send the generation in the user data.
    pub(super) fn from_owned_partitions(subscription: &Subscription) -> OwnershipReport {
        let in_user_data = || subscription.user_data.as_deref().and_then(decode_generation);
        let generation = subscription.generation.or_else(in_user_data).unwrap_or(NO_GENERATION);
        OwnershipReport { partitions: subscription.owned.clone(), generation }
    }
}

#[derive(Debug, Clone, Copy)]
struct Claim {
    member: usize,
    generation: i32,
    /// True if another member claims the partition in the same generation. The owner is then unknown.
    disputed: bool,
}

/// Previous owners of all partitions.
#[derive(Debug)]
pub(super) struct PreviousOwners {
    /// Claim of the newest generation, by partition.
    latest: Vec<Option<Claim>>,
    /// All claims, as pairs of partition and member.
    all: BTreeSet<(usize, usize)>,
    /// Last owner in a generation before the newest, and that generation, by partition.
    former: BTreeMap<usize, (usize, i32)>,
}

impl PreviousOwners {
    pub(super) fn new(group: &Group<'_>, report: fn(&Subscription) -> OwnershipReport) -> PreviousOwners {
        let lookup = group.lookup();
        let reports: Vec<OwnershipReport> =
            group.members.iter().map(|(_, subscription)| report(subscription)).collect();
        let newest = reports.iter().map(|report| report.generation).max().unwrap_or(NO_GENERATION);
        let mut owners =
            PreviousOwners { latest: vec![None; group.partitions()], all: BTreeSet::new(), former: BTreeMap::new() };
        for (member, report) in reports.iter().enumerate() {
            let indexes: BTreeSet<usize> = report.partitions.iter().filter_map(|p| lookup.index(p)).collect();
            for partition in indexes {
                owners.claim(partition, member, report.generation);
                if report.generation < newest {
                    owners.record_former(partition, member, report.generation);
                }
            }
        }
        owners
    }

    /// Returns the owners according to an assignment.
    pub(super) fn of_assignment(group: &Group<'_>, assigned: &[Vec<usize>]) -> PreviousOwners {
        let mut owners = PreviousOwners::empty(group);
        for (member, partitions) in assigned.iter().enumerate() {
            partitions.iter().for_each(|partition| owners.claim(*partition, member, NO_GENERATION));
        }
        owners
    }

    fn empty(group: &Group<'_>) -> PreviousOwners {
        PreviousOwners { latest: vec![None; group.partitions()], all: BTreeSet::new(), former: BTreeMap::new() }
    }

    fn claim(&mut self, partition: usize, member: usize, generation: i32) {
        self.all.insert((partition, member));
        match &mut self.latest[partition] {
            Some(claim) if claim.generation > generation => {}
            Some(claim) if claim.generation == generation => claim.disputed = true,
            claim => *claim = Some(Claim { member, generation, disputed: false }),
        }
    }

    fn record_former(&mut self, partition: usize, member: usize, generation: i32) {
        let former = self.former.entry(partition).or_insert((member, generation));
        if generation > former.1 {
            *former = (member, generation);
        }
    }

    /// Returns the owner of a partition, unless members disagree.
    pub(super) fn owner(&self, partition: usize) -> Option<usize> {
        self.latest[partition].filter(|claim| !claim.disputed).map(|claim| claim.member)
    }

    /// Returns the last owner in a generation before the newest.
    pub(super) fn former_owner(&self, partition: usize) -> Option<usize> {
        self.former.get(&partition).map(|(member, _)| *member)
    }

    /// Returns true if no other member claims the partition in the newest generation of its claims.
    pub(super) fn has_no_other_owner(&self, partition: usize, member: usize) -> bool {
        self.latest[partition].is_none_or(|claim| claim.member == member && !claim.disputed)
    }

    /// Returns true if this member claims the partition, or no member does.
    pub(super) fn is_new_or_claimed_by(&self, partition: usize, member: usize) -> bool {
        self.latest[partition].is_none() || self.all.contains(&(partition, member))
    }

    /// Returns the owned partitions by member.
    pub(super) fn by_member(&self, members: usize) -> Vec<Vec<usize>> {
        let mut owned = vec![Vec::new(); members];
        for partition in 0..self.latest.len() {
            if let Some(member) = self.owner(partition) {
                owned[member].push(partition);
            }
        }
        owned
    }
}
