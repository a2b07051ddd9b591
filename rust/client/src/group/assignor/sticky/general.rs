//! Sticky assignment of members with different subscriptions: new partitions go to the least loaded subscribers, then
//! partitions move to less loaded members until no move improves the balance.

use std::collections::BTreeSet;

use super::Mismatched;
use super::movements::Movements;
use super::previous_owners::PreviousOwners;
use super::racks::Racks;
use crate::group::assignor::group::Group;

/// Returns the partitions by member.
pub(super) fn assign(
    group: &Group<'_>,
    owners: &PreviousOwners,
    racks: &Racks<'_>,
    mismatched: Mismatched,
) -> Vec<Vec<usize>> {
    let mut balance = Balance::new(group, owners);
    let revoked = balance.keep_owned(racks, mismatched);
    let all = hardest_first(group);
    let new: Vec<usize> = all.iter().copied().filter(|partition| balance.owner[*partition].is_none()).collect();
    balance.assign_new(&new, racks);
    let movable = |partition: &usize| group.topic_of(*partition).subscribers.len() > 1;
    if !revoked {
        // Moves partitions without a previous owner first.
        balance.rebalance(new.iter().copied().filter(movable));
    }
    balance.rebalance(all.iter().copied().filter(movable));
    balance.by_member()
}

/// Returns the partitions of topics with few subscribers first, because they have the fewest possible owners.
fn hardest_first(group: &Group<'_>) -> Vec<usize> {
    let mut topics: Vec<_> = group.topics.iter().collect();
    topics.sort_by_key(|topic| (topic.subscribers.len(), topic.first));
    topics.into_iter().flat_map(|topic| topic.partitions()).collect()
}

struct Balance<'a> {
    group: &'a Group<'a>,
    owners: &'a PreviousOwners,
    /// Owner by partition.
    owner: Vec<Option<usize>>,
    /// Number of partitions by member.
    counts: Vec<usize>,
    /// Members ordered by number of partitions.
    loads: BTreeSet<(usize, usize)>,
    movements: Movements,
}

impl<'a> Balance<'a> {
    fn new(group: &'a Group<'a>, owners: &'a PreviousOwners) -> Balance<'a> {
        Balance {
            group,
            owners,
            owner: vec![None; group.partitions()],
            counts: vec![0; group.members.len()],
            loads: (0..group.members.len()).map(|member| (0, member)).collect(),
            movements: Movements::default(),
        }
    }

    /// Keeps the previous partitions of members that are still subscribed. Returns true if any partition was revoked.
    fn keep_owned(&mut self, racks: &Racks<'_>, mismatched: Mismatched) -> bool {
        let mut revoked = false;
        for partition in 0..self.group.partitions() {
            let Some(member) = self.owners.owner(partition) else { continue };
            let keeps = mismatched == Mismatched::Kept || !racks.mismatch(member, partition);
            if keeps && self.group.topic_of(partition).has_subscriber(member) {
                self.assign_to(partition, member);
            } else {
                revoked = true;
            }
        }
        revoked
    }

    /// Assigns each partition to its least loaded subscriber, preferring subscribers in the racks of its replicas.
    fn assign_new(&mut self, partitions: &[usize], racks: &Racks<'_>) {
        let mut mismatched = Vec::new();
        for partition in partitions {
            match self.least_loaded(*partition, |member| !racks.mismatch(member, *partition)) {
                Some(member) => self.assign_to(*partition, member),
                None => mismatched.push(*partition),
            }
        }
        for partition in mismatched {
            if let Some(member) = self.least_loaded(partition, |_| true) {
                self.assign_to(partition, member);
            }
        }
    }

    fn least_loaded(&self, partition: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let subscribers = self.group.topic_of(partition).subscribers.iter().copied();
        subscribers.filter(|member| fits(*member)).min_by_key(|member| (self.counts[*member], *member))
    }

    /// Moves partitions to less loaded members until no partition moves. Every move improves the balance, so the loop
    /// ends and needs no rollback.
    fn rebalance(&mut self, partitions: impl Iterator<Item = usize> + Clone) {
        let mut moved = true;
        while moved {
            moved = false;
            for partition in partitions.clone() {
                if self.is_balanced() {
                    return;
                }
                moved |= self.move_to_less_loaded(partition);
            }
        }
    }

    /// Returns true if the numbers of partitions of any two members differ by one or less.
    fn is_balanced(&self) -> bool {
        match (self.loads.first(), self.loads.last()) {
            (Some((min, _)), Some((max, _))) => max - min <= 1,
            _ => true,
        }
    }

    /// Moves a partition, or a substitute, if a subscriber has at least two partitions fewer than the owner. The
    /// partition moves to its former owner if possible, otherwise to the least loaded subscriber.
    fn move_to_less_loaded(&mut self, partition: usize) -> bool {
        let Some(owner) = self.owner[partition] else { return false };
        let is_less_loaded = |member: &usize| self.counts[*member] + 1 < self.counts[owner];
        let is_subscribed = |member: &usize| self.group.topic_of(partition).has_subscriber(*member);
        let former = self.owners.former_owner(partition).filter(is_subscribed).filter(is_less_loaded);
        let Some(to) = former.or_else(|| self.least_loaded(partition, |_| true).filter(is_less_loaded)) else {
            return false;
        };
        let topic = self.group.topic_of(partition).first;
        let substitute = self.movements.partition_to_move(partition, topic, owner, to);
        let improves = |other: usize| self.counts[to] + 1 < self.counts[other];
        match self.owner[substitute].filter(|other| improves(*other)) {
            Some(other) => self.transfer(substitute, other, to),
            None => self.transfer(partition, owner, to),
        }
        true
    }

    fn transfer(&mut self, partition: usize, from: usize, to: usize) {
        self.movements.record(partition, self.group.topic_of(partition).first, from, to);
        self.set_count(from, self.counts[from] - 1);
        self.assign_to(partition, to);
    }

    fn assign_to(&mut self, partition: usize, member: usize) {
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
