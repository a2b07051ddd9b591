//! Server-side assignors. `uniform` balances partitions and moves as few as possible; `range` assigns consecutive
//! partitions of each topic to each member.

use std::collections::{BTreeMap, BTreeSet};

use super::member::Member;
use super::{Consumers, Partitions};

pub(super) const UNIFORM: &str = "uniform";
pub(super) const RANGE: &str = "range";
/// Supported assignors, the default first.
pub(super) const ASSIGNORS: [&str; 2] = [UNIFORM, RANGE];

/// Partitions assigned to one member, and the index of the member's class.
struct Share {
    member: String,
    class: usize,
    partitions: Partitions,
}

/// Members with the same subscription.
struct Class {
    topics: BTreeSet<[u8; 16]>,
    by_size: BySize,
}

/// Member indexes ordered by number of partitions, as pairs (partition count, member index).
type BySize = BTreeSet<(usize, usize)>;

/// Assignment in progress. Members are ordered by number of partitions, so that those with the fewest and the most are
/// found quickly.
struct Balancer {
    shares: Vec<Share>,
    classes: Vec<Class>,
    by_size: BySize,
}

impl Consumers {
    /// Returns the assignor that most members request, or the default in a tie.
    pub(crate) fn assignor(&self) -> &'static str {
        let votes =
            |assignor: &str| self.members.iter().filter(|member| member.assignor.as_deref() == Some(assignor)).count();
        if votes(RANGE) > votes(UNIFORM) { RANGE } else { UNIFORM }
    }

    /// Computes the target assignment.
    pub(super) fn assign(&mut self) {
        self.target = if self.assignor() == RANGE { self.range() } else { self.uniform() };
        self.target_epoch = self.epoch;
    }

    /// Computes the assignment of `uniform`: keeps the previous target where possible, assigns free partitions to the
    /// members with the fewest partitions, then moves partitions until the members are balanced.
    fn uniform(&self) -> BTreeMap<String, Partitions> {
        let (mut balancer, free) = self.balancer();
        for partition in free {
            let readers = balancer.classes.iter().filter(|class| class.topics.contains(&partition.0));
            if let Some((_, least)) = readers.filter_map(|class| class.by_size.first().copied()).min() {
                balancer.change(least, |partitions| partitions.insert(partition));
            }
        }
        while balancer.balance_once() {}
        balancer.shares.into_iter().map(|share| (share.member, share.partitions)).collect()
    }

    /// Returns the partitions that members keep from the previous target, and the free partitions.
    fn balancer(&self) -> (Balancer, Partitions) {
        let mut balancer =
            Balancer { shares: Vec::with_capacity(self.members.len()), classes: Vec::new(), by_size: BySize::new() };
        let mut class_indexes: BTreeMap<BTreeSet<[u8; 16]>, usize> = BTreeMap::new();
        let read = |topics: &BTreeSet<[u8; 16]>| -> Partitions {
            let read = self.subscribed_topics.values().filter(|(id, _)| topics.contains(id));
            read.flat_map(|(id, count)| (0..*count).map(|partition| (*id, partition))).collect()
        };
        let mut free = Partitions::new();
        for (index, member) in self.members.iter().enumerate() {
            let topics = self.subscribed_topics.iter().filter(|(name, _)| member.reads(name));
            let topics: BTreeSet<[u8; 16]> = topics.map(|(_, (id, _))| *id).collect();
            let class = *class_indexes.entry(topics).or_insert_with_key(|topics| {
                free.extend(read(topics));
                balancer.classes.push(Class { topics: topics.clone(), by_size: BySize::new() });
                balancer.classes.len() - 1
            });
            if let Some(class) = balancer.classes.get_mut(class) {
                class.by_size.insert((0, index));
            }
            balancer.by_size.insert((0, index));
            balancer.shares.push(Share { member: member.id.clone(), class, partitions: Partitions::new() });
        }
        for (index, member) in self.members.iter().enumerate() {
            let Some(previous) = self.target.get(&member.id) else { continue };
            let Some(topics) = balancer.class_of(index).map(|class| &class.topics) else { continue };
            // `free.remove` returns true only once per partition, so two members never keep the same partition.
            let kept = previous.iter().filter(|partition| topics.contains(&partition.0) && free.remove(partition));
            let kept: Partitions = kept.copied().collect();
            balancer.change(index, |partitions| *partitions = kept);
        }
        (balancer, free)
    }

    /// Computes the assignment of `range`: consecutive partitions of each topic. Static members come first, ordered by
    /// instance id, so that they keep the same partitions.
    fn range(&self) -> BTreeMap<String, Partitions> {
        let mut members: Vec<&Member> = self.members.iter().collect();
        members.sort_by_key(|member| (member.instance_id.is_none(), member.instance_id.clone(), member.id.clone()));
        let mut target: BTreeMap<String, Partitions> =
            members.iter().map(|member| (member.id.clone(), Partitions::new())).collect();
        for (topic, (id, count)) in &self.subscribed_topics {
            let readers: Vec<_> = members.iter().filter(|member| member.reads(topic)).collect();
            let Ok(number) = i32::try_from(readers.len()) else { continue };
            let (Some(each), Some(more)) = (count.checked_div(number), count.checked_rem(number)) else { continue };
            let mut next = 0;
            for (index, member) in (0..).zip(readers) {
                let end = next + each + i32::from(index < more);
                if let Some(partitions) = target.get_mut(&member.id) {
                    partitions.extend((next..end).map(|partition| (*id, partition)));
                }
                next = end;
            }
        }
        target
    }
}

impl Balancer {
    fn class_of(&self, index: usize) -> Option<&Class> {
        self.classes.get(self.shares.get(index)?.class)
    }

    fn change<T>(&mut self, index: usize, change: impl FnOnce(&mut Partitions) -> T) {
        let Some(share) = self.shares.get_mut(index) else { return };
        let before = share.partitions.len();
        change(&mut share.partitions);
        let after = share.partitions.len();
        let class = self.classes.get_mut(share.class).map(|class| &mut class.by_size);
        for order in class.into_iter().chain([&mut self.by_size]) {
            order.remove(&(before, index));
            order.insert((after, index));
        }
    }

    /// Moves one partition to a member that has at least two partitions fewer than its current owner. Returns false if
    /// the members are balanced.
    fn balance_once(&mut self) -> bool {
        // It is enough to try the member with the fewest partitions in each class: if it cannot take a partition, the
        // other members of its class cannot either.
        let mut least: Vec<_> = self.classes.iter().filter_map(|class| class.by_size.first().copied()).collect();
        least.sort_unstable();
        let move_found = least.into_iter().find_map(|(size, least)| {
            let topics = &self.class_of(least)?.topics;
            let most = self.by_size.iter().rev().take_while(|(more, _)| *more >= size + 2);
            most.filter_map(|(_, most)| {
                // Move the last partition that the other member can take, so that the owner keeps its first partitions.
                let partitions = self.shares.get(*most)?.partitions.iter().rev();
                Some((*most, least, *partitions.into_iter().find(|partition| topics.contains(&partition.0))?))
            })
            .next()
        });
        let Some((most, least, moved)) = move_found else { return false };
        self.change(most, |partitions| partitions.remove(&moved));
        self.change(least, |partitions| partitions.insert(moved));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    /// Creates a group with random subscriptions and a random previous target assignment.
    fn consumers(random: &mut fastrand::Rng) -> Consumers {
        let mut group = Consumers::new(Instant::now());
        let topics = random.u8(1..6);
        for topic in 0..topics {
            group.subscribed_topics.insert(format!("t{topic}"), ([topic; 16], random.i32(1..20)));
        }
        for number in 0..random.usize(1..8) {
            let mut member = Member::new(&format!("m{number}"), Instant::now());
            let all = random.bool();
            member.topics = (0..topics).filter(|_| all || random.bool()).map(|topic| format!("t{topic}")).collect();
            group.members.push(member);
        }
        for topic in 0..topics {
            for partition in 0..25 {
                let member = format!("m{}", random.usize(..8));
                group.target.entry(member).or_default().insert(([topic; 16], partition));
            }
        }
        group
    }

    /// Returns all partitions of the topics to which a member is subscribed.
    fn partitions_for(group: &Consumers, member: &Member) -> Partitions {
        let topics = group.subscribed_topics.iter().filter(|(name, _)| member.reads(name));
        topics.flat_map(|(_, (id, count))| (0..*count).map(|partition| (*id, partition))).collect()
    }

    /// Checks that every subscribed partition is assigned exactly once, to a subscribed member.
    fn check(group: &Consumers) {
        let mut assigned = Partitions::new();
        for member in &group.members {
            let may = partitions_for(group, member);
            for partition in group.target(&member.id) {
                assert!(may.contains(&partition));
                assert!(assigned.insert(partition), "assigned twice");
            }
        }
        let expected: Partitions = group.members.iter().flat_map(|member| partitions_for(group, member)).collect();
        assert_eq!(assigned, expected);
        assert_eq!(group.target.len(), group.members.len());
    }

    #[test]
    fn uniform_is_balanced_and_stable() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let mut group = consumers(&mut random);
            group.target = group.uniform();
            check(&group);
            for least in &group.members {
                let may = partitions_for(&group, least);
                for most in &group.members {
                    let more = group.target(&most.id);
                    let could_give = !more.is_disjoint(&may);
                    assert!(!could_give || more.len() < group.target(&least.id).len() + 2);
                }
            }
            assert_eq!(group.uniform(), group.target, "an even target stays");
        }
    }

    #[test]
    fn range_assigns_each_partition_once() {
        let mut random = fastrand::Rng::with_seed(8);
        for _ in 0..300 {
            let mut group = consumers(&mut random);
            group.target = group.range();
            check(&group);
        }
    }

    #[test]
    fn uniform_moves_minimum_to_new_member() {
        let mut group = Consumers::new(Instant::now());
        group.subscribed_topics.insert("t".to_owned(), ([1; 16], 12));
        for number in 0..4_usize {
            let mut member = Member::new(&format!("m{number}"), Instant::now());
            member.topics.insert("t".to_owned());
            group.members.push(member);
            let before = std::mem::take(&mut group.target);
            group.target.clone_from(&before);
            group.target = group.uniform();
            let kept: usize =
                before.iter().map(|(id, previous)| previous.intersection(&group.target(id)).count()).sum();
            assert_eq!(kept, if number == 0 { 0 } else { 12 - 12 / (number + 1) });
        }
    }
}
