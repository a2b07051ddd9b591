//! Kafka's assignors on the server: `uniform` moves as little as it can, `range` gives neighbours of each topic.

use std::collections::BTreeMap;

use super::member::Member;
use super::{Consumers, Partitions};

pub(super) const UNIFORM: &str = "uniform";
pub(super) const RANGE: &str = "range";
/// The first is the default.
pub(super) const ASSIGNORS: [&str; 2] = [UNIFORM, RANGE];

/// What one member may have and has.
struct Share {
    member: String,
    may: Partitions,
    has: Partitions,
}

impl Consumers {
    /// The assignor that most members want.
    pub(crate) fn assignor(&self) -> &'static str {
        let votes =
            |assignor: &str| self.members.iter().filter(|member| member.assignor.as_deref() == Some(assignor)).count();
        if votes(RANGE) > votes(UNIFORM) { RANGE } else { UNIFORM }
    }

    /// Makes a target for the group as it is.
    pub(super) fn assign(&mut self) {
        self.target = if self.assignor() == RANGE { self.range() } else { self.uniform() };
        self.target_epoch = self.epoch;
    }

    /// Keeps what members were to have, gives what is free to those with the least, and evens out.
    fn uniform(&self) -> BTreeMap<String, Partitions> {
        let share = |member: &Member| {
            let may = self.partitions_for(member);
            let has = self.target.get(&member.id).map(|had| had.intersection(&may).copied().collect());
            Share { member: member.id.clone(), has: has.unwrap_or_default(), may }
        };
        let mut shares: Vec<Share> = self.members.iter().map(share).collect();
        let mut free: Partitions = shares.iter().flat_map(|share| share.may.iter().copied()).collect();
        for share in &mut shares {
            // Nobody has what somebody else has.
            share.has.retain(|partition| free.remove(partition));
        }
        for partition in free {
            let readers = shares.iter_mut().filter(|share| share.may.contains(&partition));
            if let Some(least) = readers.min_by_key(|share| share.has.len()) {
                least.has.insert(partition);
            }
        }
        while even_out(&mut shares) {}
        shares.into_iter().map(|share| (share.member, share.has)).collect()
    }

    /// Members in order: static ones by their names first, so that they keep their places.
    fn range(&self) -> BTreeMap<String, Partitions> {
        let mut members: Vec<&Member> = self.members.iter().collect();
        members.sort_by_key(|member| (member.instance_id.is_none(), member.instance_id.clone(), member.id.clone()));
        let mut target: BTreeMap<String, Partitions> =
            members.iter().map(|member| (member.id.clone(), Partitions::new())).collect();
        for (topic, (id, count)) in &self.reading {
            let readers: Vec<_> = members.iter().filter(|member| member.reads(topic)).collect();
            let Ok(number) = i32::try_from(readers.len()) else { continue };
            let (Some(each), Some(more)) = (count.checked_div(number), count.checked_rem(number)) else { continue };
            let mut next = 0;
            for (at, member) in (0..).zip(readers) {
                let end = next + each + i32::from(at < more);
                if let Some(partitions) = target.get_mut(&member.id) {
                    partitions.extend((next..end).map(|partition| (*id, partition)));
                }
                next = end;
            }
        }
        target
    }
}

/// Moves one partition from a member with more to one that has at least two less; `false` where that cannot be.
fn even_out(shares: &mut [Share]) -> bool {
    let mut by_size: Vec<usize> = (0..shares.len()).collect();
    by_size.sort_by_key(|at| shares.get(*at).map(|share| share.has.len()));
    for poor in &by_size {
        for rich in by_size.iter().rev() {
            let (Some(to), Some(from)) = (shares.get(*poor), shares.get(*rich)) else { continue };
            if from.has.len() < to.has.len() + 2 {
                break;
            }
            // The last ones move: the first stay where they are.
            let Some(moved) = from.has.iter().rev().find(|partition| to.may.contains(partition)).copied() else {
                continue;
            };
            if let Some(from) = shares.get_mut(*rich) {
                from.has.remove(&moved);
            }
            if let Some(to) = shares.get_mut(*poor) {
                to.has.insert(moved);
            }
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    /// Members that read random ones of these topics, and what they had at random before.
    fn consumers(random: &mut fastrand::Rng) -> Consumers {
        let mut group = Consumers::new(Instant::now());
        let topics = random.u8(1..6);
        for topic in 0..topics {
            group.reading.insert(format!("t{topic}"), ([topic; 16], random.i32(1..20)));
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

    /// Every partition that somebody reads, once, with somebody who reads it.
    fn check(group: &Consumers) {
        let mut given = Partitions::new();
        for member in &group.members {
            let may = group.partitions_for(member);
            for partition in group.target(&member.id) {
                assert!(may.contains(&partition));
                assert!(given.insert(partition), "given twice");
            }
        }
        let wanted: Partitions = group.members.iter().flat_map(|member| group.partitions_for(member)).collect();
        assert_eq!(given, wanted);
        assert_eq!(group.target.len(), group.members.len());
    }

    #[test]
    fn uniform_is_even_and_moves_nothing_twice() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let mut group = consumers(&mut random);
            group.target = group.uniform();
            check(&group);
            for poor in &group.members {
                let may = group.partitions_for(poor);
                for rich in &group.members {
                    let more = group.target(&rich.id);
                    let could_give = !more.is_disjoint(&may);
                    assert!(!could_give || more.len() < group.target(&poor.id).len() + 2);
                }
            }
            assert_eq!(group.uniform(), group.target, "an even target stays");
        }
    }

    #[test]
    fn range_gives_each_partition_to_one() {
        let mut random = fastrand::Rng::with_seed(8);
        for _ in 0..300 {
            let mut group = consumers(&mut random);
            group.target = group.range();
            check(&group);
        }
    }

    #[test]
    fn a_member_that_comes_takes_its_part_and_no_more() {
        let mut group = Consumers::new(Instant::now());
        group.reading.insert("t".to_owned(), ([1; 16], 12));
        for number in 0..4_usize {
            let mut member = Member::new(&format!("m{number}"), Instant::now());
            member.topics.insert("t".to_owned());
            group.members.push(member);
            let before = std::mem::take(&mut group.target);
            group.target.clone_from(&before);
            group.target = group.uniform();
            let kept: usize = before.iter().map(|(id, had)| had.intersection(&group.target(id)).count()).sum();
            assert_eq!(kept, if number == 0 { 0 } else { 12 - 12 / (number + 1) });
        }
    }
}
