//! Which member had which partition, as far as members agree.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::assignor::Subscription;
use crate::group::assignor::encoding::{decode_generation, decode_previous};
use crate::group::assignor::group::Group;
use crate::types::TopicPartition;

/// The generation of members that give none.
const NONE: i32 = -1;

/// What a member says of its past.
#[derive(Debug)]
pub(super) struct Told {
    partitions: Vec<TopicPartition>,
    generation: i32,
}

impl Told {
    /// As eager members do, which own nothing when they join. What cannot be read says nothing.
    pub(super) fn in_user_data(subscription: &Subscription) -> Told {
        let previous = subscription.user_data.as_ref().and_then(decode_previous);
        let (partitions, generation) = previous.unwrap_or_default();
        Told { partitions, generation: generation.unwrap_or(NONE) }
    }

    /// As cooperative members do; the generation was in the user data before it had a place of its own.
    pub(super) fn as_owned(subscription: &Subscription) -> Told {
        let older = || subscription.user_data.as_deref().and_then(decode_generation);
        let generation = subscription.generation.or_else(older).unwrap_or(NONE);
        Told { partitions: subscription.owned.clone(), generation }
    }
}

#[derive(Debug, Clone, Copy)]
struct Claim {
    member: usize,
    generation: i32,
    /// Another member says the same of the same generation: one of them is wrong, and nobody knows which.
    disputed: bool,
}

/// The claims of all members.
#[derive(Debug)]
pub(super) struct Claims {
    /// By partition, the latest.
    latest: Vec<Option<Claim>>,
    /// All there are, by partition and member.
    all: BTreeSet<(usize, usize)>,
    /// The member before the latest generation that had a partition last.
    former: BTreeMap<usize, (usize, i32)>,
}

impl Claims {
    pub(super) fn new(group: &Group<'_>, told: fn(&Subscription) -> Told) -> Claims {
        let lookup = group.lookup();
        let told: Vec<Told> = group.members.iter().map(|(_, subscription)| told(subscription)).collect();
        let newest = told.iter().map(|told| told.generation).max().unwrap_or(NONE);
        let mut claims =
            Claims { latest: vec![None; group.partitions()], all: BTreeSet::new(), former: BTreeMap::new() };
        for (member, told) in told.iter().enumerate() {
            let numbers: BTreeSet<usize> = told.partitions.iter().filter_map(|p| lookup.number(p)).collect();
            for partition in numbers {
                claims.claim(partition, member, told.generation);
                if told.generation < newest {
                    claims.remember(partition, member, told.generation);
                }
            }
        }
        claims
    }

    /// Those of members that have just been given these partitions.
    pub(super) fn held(group: &Group<'_>, assigned: &[Vec<usize>]) -> Claims {
        let mut claims = Claims::none(group);
        for (member, partitions) in assigned.iter().enumerate() {
            partitions.iter().for_each(|partition| claims.claim(*partition, member, NONE));
        }
        claims
    }

    fn none(group: &Group<'_>) -> Claims {
        Claims { latest: vec![None; group.partitions()], all: BTreeSet::new(), former: BTreeMap::new() }
    }

    fn claim(&mut self, partition: usize, member: usize, generation: i32) {
        self.all.insert((partition, member));
        match &mut self.latest[partition] {
            Some(claim) if claim.generation > generation => {}
            Some(claim) if claim.generation == generation => claim.disputed = true,
            claim => *claim = Some(Claim { member, generation, disputed: false }),
        }
    }

    fn remember(&mut self, partition: usize, member: usize, generation: i32) {
        let former = self.former.entry(partition).or_insert((member, generation));
        if generation > former.1 {
            *former = (member, generation);
        }
    }

    /// The member that has a partition, unless members disagree.
    pub(super) fn owner(&self, partition: usize) -> Option<usize> {
        self.latest[partition].filter(|claim| !claim.disputed).map(|claim| claim.member)
    }

    /// The member of an older generation that had it last.
    pub(super) fn former_owner(&self, partition: usize) -> Option<usize> {
        self.former.get(&partition).map(|(member, _)| *member)
    }

    /// Whether a partition has no member but this one, as far as the latest claims show.
    pub(super) fn is_held_by_no_other(&self, partition: usize, member: usize) -> bool {
        self.latest[partition].is_none_or(|claim| claim.member == member && !claim.disputed)
    }

    /// Whether a member says that it has a partition, or nobody says so.
    pub(super) fn is_new_or_told_by(&self, partition: usize, member: usize) -> bool {
        self.latest[partition].is_none() || self.all.contains(&(partition, member))
    }

    /// The partitions of each member.
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
