//! Members want different topics: what is new goes to the least loaded that want it, then partitions move from more to
//! less loaded members until no move helps.

use std::collections::BTreeSet;

use super::Far;
use super::movements::Movements;
use super::previous_owners::Claims;
use super::racks::Racks;
use crate::group::assignor::group::Group;

/// Partitions by member.
pub(super) fn assign(group: &Group<'_>, claims: &Claims, racks: &Racks<'_>, far: Far) -> Vec<Vec<usize>> {
    let mut balance = Balance::new(group, claims);
    let revoked = balance.keep_owned(racks, far);
    let all = hardest_first(group);
    let new: Vec<usize> = all.iter().copied().filter(|partition| balance.owner[*partition].is_none()).collect();
    balance.assign_new(&new, racks);
    let movable = |partition: &usize| group.topic_of(*partition).subscribers.len() > 1;
    if !revoked {
        // Rather move what nobody has read yet.
        balance.rebalance(new.iter().copied().filter(movable));
    }
    balance.rebalance(all.iter().copied().filter(movable));
    balance.by_member()
}

/// Partitions of topics with few subscribers first, as they have the fewest places to go to.
fn hardest_first(group: &Group<'_>) -> Vec<usize> {
    let mut topics: Vec<_> = group.topics.iter().collect();
    topics.sort_by_key(|topic| (topic.subscribers.len(), topic.first));
    topics.into_iter().flat_map(|topic| topic.partitions()).collect()
}

struct Balance<'a> {
    group: &'a Group<'a>,
    claims: &'a Claims,
    /// By partition.
    owner: Vec<Option<usize>>,
    /// By member.
    counts: Vec<usize>,
    /// Members by their counts.
    loads: BTreeSet<(usize, usize)>,
    movements: Movements,
}

impl<'a> Balance<'a> {
    fn new(group: &'a Group<'a>, claims: &'a Claims) -> Balance<'a> {
        Balance {
            group,
            claims,
            owner: vec![None; group.partitions()],
            counts: vec![0; group.members.len()],
            loads: (0..group.members.len()).map(|member| (0, member)).collect(),
            movements: Movements::default(),
        }
    }

    /// Members keep what they have and want; whether anything had to be taken from one.
    fn keep_owned(&mut self, racks: &Racks<'_>, far: Far) -> bool {
        let mut revoked = false;
        for partition in 0..self.group.partitions() {
            let Some(member) = self.claims.owner(partition) else { continue };
            let near_enough = far == Far::Kept || !racks.mismatch(member, partition);
            if near_enough && self.group.topic_of(partition).has_subscriber(member) {
                self.give(partition, member);
            } else {
                revoked = true;
            }
        }
        revoked
    }

    /// Each goes to the least loaded of its subscribers, of those in its racks if there are any.
    fn assign_new(&mut self, partitions: &[usize], racks: &Racks<'_>) {
        let mut far = Vec::new();
        for partition in partitions {
            match self.least_loaded(*partition, |member| !racks.mismatch(member, *partition)) {
                Some(member) => self.give(*partition, member),
                None => far.push(*partition),
            }
        }
        for partition in far {
            if let Some(member) = self.least_loaded(partition, |_| true) {
                self.give(partition, member);
            }
        }
    }

    fn least_loaded(&self, partition: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let subscribers = self.group.topic_of(partition).subscribers.iter().copied();
        subscribers.filter(|member| fits(*member)).min_by_key(|member| (self.counts[*member], *member))
    }

    /// Moves partitions to less loaded members, again and again until none moves. Every move makes the loads more equal,
    /// so it ends, and there is nothing to take back.
    fn rebalance(&mut self, partitions: impl Iterator<Item = usize> + Clone) {
        let mut moved = true;
        while moved {
            moved = false;
            for partition in partitions.clone() {
                if self.is_level() {
                    return;
                }
                moved |= self.improve(partition);
            }
        }
    }

    /// Whether no two members differ by more than one.
    fn is_level(&self) -> bool {
        match (self.loads.first(), self.loads.last()) {
            (Some((least, _)), Some((most, _))) => most - least <= 1,
            _ => true,
        }
    }

    /// Moves a partition, or another in its stead, if a subscriber has at least two fewer than its owner: back to the
    /// one that had it before, or else to the least loaded.
    fn improve(&mut self, partition: usize) -> bool {
        let Some(owner) = self.owner[partition] else { return false };
        let gains = |member: &usize| self.counts[*member] + 1 < self.counts[owner];
        let wants = |member: &usize| self.group.topic_of(partition).has_subscriber(*member);
        let former = self.claims.former_owner(partition).filter(wants).filter(gains);
        let Some(to) = former.or_else(|| self.least_loaded(partition, |_| true).filter(gains)) else { return false };
        let topic = self.group.topic_of(partition).first;
        let instead = self.movements.instead_of(partition, topic, owner, to);
        let better = |other: usize| self.counts[to] + 1 < self.counts[other];
        match self.owner[instead].filter(|other| better(*other)) {
            Some(other) => self.transfer(instead, other, to),
            None => self.transfer(partition, owner, to),
        }
        true
    }

    fn transfer(&mut self, partition: usize, from: usize, to: usize) {
        self.movements.moved(partition, self.group.topic_of(partition).first, from, to);
        self.set_count(from, self.counts[from] - 1);
        self.give(partition, to);
    }

    fn give(&mut self, partition: usize, member: usize) {
        self.owner[partition] = Some(member);
        self.set_count(member, self.counts[member] + 1);
    }

    fn set_count(&mut self, member: usize, count: usize) {
        self.loads.remove(&(self.counts[member], member));
        self.counts[member] = count;
        self.loads.insert((count, member));
    }

    fn by_member(&self) -> Vec<Vec<usize>> {
        let mut assigned = vec![Vec::new(); self.counts.len()];
        for (partition, owner) in self.owner.iter().enumerate() {
            if let Some(member) = owner {
                assigned[*member].push(partition);
            }
        }
        assigned
    }
}
