//! Which partition a record goes to when the user does not say: the rules of the Java client and of librdkafka.
//!
//! A rule may decide by the key. What it leaves open sticks to one partition until that has had a batch's worth of
//! bytes, then moves on, so that batches fill up (KIP-480); which one is next is left to chance, and partitions with
//! short queues have the better chance (KIP-794).

use std::time::Duration;

use samsarrow_wire::{crc, murmur2};

use crate::config::Partitioner;

/// How a producer chooses partitions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Partitioning {
    pub(crate) by: Partitioner,
    pub(crate) ignore_keys: bool,
    /// Whether long queues are spared.
    pub(crate) adaptive: bool,
    /// After how long a broker that takes nothing is avoided.
    pub(crate) patience: Option<Duration>,
}

impl Partitioning {
    /// The partition out of `count` that the key alone decides, if it does.
    #[inline]
    pub(crate) fn by_key(&self, key: Option<&[u8]>, count: i32) -> Option<i32> {
        if self.ignore_keys {
            return None;
        }
        match self.by {
            Partitioner::Murmur2 => key.map(|key| murmur2::partition(key, count)),
            Partitioner::RoundRobin => None,
            // Null and empty are the same to these two.
            Partitioner::Consistent => Some(by_hash(crc::crc32(key.unwrap_or_default()), count)),
            Partitioner::ConsistentRandom => {
                key.filter(|key| !key.is_empty()).map(|key| by_hash(crc::crc32(key), count))
            }
            Partitioner::Fnv1a => Some(by_hash(fnv1a(key.unwrap_or_default()), count)),
            Partitioner::Fnv1aRandom => key.map(|key| by_hash(fnv1a(key), count)),
        }
    }

    /// Whether every record's partition follows from its key.
    pub(crate) fn decides_all(&self) -> bool {
        !self.ignore_keys && matches!(self.by, Partitioner::Consistent | Partitioner::Fnv1a)
    }

    /// Whether keys matter at all.
    pub(crate) fn looks_at_keys(&self) -> bool {
        !self.ignore_keys && self.by != Partitioner::RoundRobin
    }

    /// The bytes after which records that no key decides move on; `batch` is a batch's worth.
    pub(crate) fn switch_at(&self, batch: usize) -> usize {
        if self.by == Partitioner::RoundRobin { 0 } else { batch }
    }

    fn in_turn(&self) -> bool {
        self.by == Partitioner::RoundRobin
    }
}

#[inline]
fn by_hash(hash: u32, count: i32) -> i32 {
    (hash % count.max(1).cast_unsigned()).cast_signed()
}

/// FNV-1a of 32 bits, its sign dropped: as librdkafka and Sarama have it.
fn fnv1a(data: &[u8]) -> u32 {
    let hash = data.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash.cast_signed().wrapping_abs().cast_unsigned()
}

/// The partitions to choose from, and how likely each is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choices {
    partitions: Vec<i32>,
    /// Running sums of the likelihoods; empty if all are alike.
    sums: Vec<usize>,
    count: i32,
}

impl Choices {
    /// `available` partitions, each with the length of its queue, out of `count`.
    pub(crate) fn new(available: impl Iterator<Item = (i32, usize)>, count: i32, adaptive: bool) -> Self {
        let (partitions, queues): (Vec<i32>, Vec<usize>) = available.unzip();
        let longest = queues.iter().copied().max().unwrap_or(0);
        let mut sums = Vec::new();
        if adaptive && queues.iter().any(|queue| *queue != longest) {
            let mut sum = 0;
            sums.extend(queues.iter().map(|queue| {
                sum += longest + 1 - queue;
                sum
            }));
        }
        Self { partitions, sums, count }
    }

    /// The number of partitions that the topic has.
    pub(crate) fn count(&self) -> i32 {
        self.count
    }

    /// As [`count`](Self::count).
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    fn any(&self) -> i32 {
        match (self.partitions.as_slice(), self.sums.last()) {
            // Nobody leads: any partition may be the first to come back.
            ([], _) => fastrand::i32(0..self.count.max(1)),
            (partitions, None) => fastrand::choice(partitions).copied().unwrap_or(0),
            (partitions, Some(total)) => {
                let drawn = fastrand::usize(0..(*total).max(1));
                let at = self.sums.partition_point(|sum| *sum <= drawn);
                partitions.get(at).copied().unwrap_or(0)
            }
        }
    }

    fn after(&self, previous: Option<i32>) -> i32 {
        let following = previous.and_then(|previous| self.partitions.iter().find(|next| **next > previous));
        let start = || if previous.is_none() { self.any() } else { self.partitions.first().copied().unwrap_or(0) };
        following.copied().unwrap_or_else(start)
    }
}

/// The partition that records stick to.
#[derive(Debug, Default)]
pub(crate) struct Sticky {
    current: Option<i32>,
    bytes: usize,
}

impl Sticky {
    /// The partition for the next `bytes`, unless `switch_at` bytes have gone there: then it is time to
    /// [move on](Self::move_on).
    #[inline]
    pub(crate) fn stay(&mut self, bytes: usize, switch_at: usize) -> Option<i32> {
        let current = self.current.filter(|_| self.bytes < switch_at)?;
        self.bytes = self.bytes.saturating_add(bytes);
        Some(current)
    }

    /// Another partition for the next `bytes`.
    pub(crate) fn move_on(&mut self, partitioning: &Partitioning, choices: &Choices, bytes: usize) -> i32 {
        let next = if partitioning.in_turn() {
            choices.after(self.current)
        } else {
            // With several to choose from the same one again is no choice, unless the others have long queues.
            let mut next = choices.any();
            while choices.sums.is_empty() && choices.partitions.len() > 1 && Some(next) == self.current {
                next = choices.any();
            }
            next
        };
        self.current = Some(next);
        self.bytes = bytes;
        next
    }

    /// The partition for the first of `sizes`, and how many of them go there.
    pub(crate) fn run(
        &mut self,
        partitioning: &Partitioning,
        choices: &Choices,
        sizes: &[u32],
        switch_at: usize,
    ) -> (i32, usize) {
        let first = sizes.first().map_or(0, |size| *size as usize);
        let partition = self.stay(first, switch_at).unwrap_or_else(|| self.move_on(partitioning, choices, first));
        let mut taken = 1;
        for size in sizes.iter().skip(1) {
            if self.bytes >= switch_at {
                break;
            }
            self.bytes = self.bytes.saturating_add(*size as usize);
            taken += 1;
        }
        (partition, taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(by: Partitioner) -> Partitioning {
        Partitioning { by, ignore_keys: false, adaptive: true, patience: None }
    }

    fn even(partitions: &[i32], count: i32) -> Choices {
        Choices::new(partitions.iter().map(|partition| (*partition, 0)), count, true)
    }

    fn pick(sticky: &mut Sticky, rule: &Partitioning, choices: &Choices, bytes: usize) -> i32 {
        sticky.stay(bytes, rule.switch_at(100)).unwrap_or_else(|| sticky.move_on(rule, choices, bytes))
    }

    #[test]
    fn sticks_for_a_batch_and_moves_on() {
        let (mut sticky, rule, choices) = (Sticky::default(), rule(Partitioner::Murmur2), even(&[0, 1, 2], 4));
        let first = pick(&mut sticky, &rule, &choices, 60);
        assert_eq!(pick(&mut sticky, &rule, &choices, 60), first);
        let second = pick(&mut sticky, &rule, &choices, 60);
        assert_ne!(second, first);
        assert!((0..3).contains(&second), "3 has no leader");
    }

    #[test]
    fn a_run_is_what_single_picks_are() {
        let (rule, choices) = (rule(Partitioner::Murmur2), even(&[0, 1, 2], 3));
        let mut sticky = Sticky::default();
        assert_eq!(sticky.run(&rule, &choices, &[60; 5], 100).1, 2);
        assert_eq!(sticky.run(&rule, &choices, &[10; 5], 100).1, 5);
        assert_eq!(sticky.run(&rule, &choices, &[60; 5], 100).1, 1, "50 bytes are there already");
    }

    #[test]
    fn works_with_one_partition_and_with_no_leader() {
        let (mut sticky, rule) = (Sticky::default(), rule(Partitioner::Murmur2));
        assert_eq!(pick(&mut sticky, &rule, &even(&[2], 3), 200), 2);
        assert_eq!(pick(&mut sticky, &rule, &even(&[2], 3), 200), 2);
        assert!((0..3).contains(&pick(&mut Sticky::default(), &rule, &even(&[], 3), 1)));
    }

    #[test]
    fn round_robin_takes_turns_whatever_the_key() {
        let (mut sticky, rule, choices) = (Sticky::default(), rule(Partitioner::RoundRobin), even(&[0, 2, 3], 4));
        assert_eq!(rule.by_key(Some(b"k"), 4), None);
        let mut seen: Vec<i32> = (0..6).map(|_| pick(&mut sticky, &rule, &choices, 1)).collect();
        assert_eq!(seen[..3], seen[3..]);
        seen.truncate(3);
        seen.sort_unstable();
        assert_eq!(seen, [0, 2, 3]);
    }

    #[test]
    fn long_queues_are_spared() {
        let choices = Choices::new([(0, 9), (1, 0), (2, 9)].into_iter(), 3, true);
        let drawn = (0..6000).filter(|_| choices.any() == 1).count();
        // 10 of 12 parts, 5000 of 6000.
        assert!((4700..5300).contains(&drawn), "{drawn}");
        let choices = Choices::new([(0, 9), (1, 0), (2, 9)].into_iter(), 3, false);
        let drawn = (0..6000).filter(|_| choices.any() == 1).count();
        assert!((1700..2300).contains(&drawn), "{drawn}");
    }

    #[test]
    fn keys_go_where_java_sends_them() {
        // murmur2("foobar") = -790332482 in Java's own test; masked to 31 bits before the modulo.
        let rule = rule(Partitioner::Murmur2);
        assert_eq!(rule.by_key(Some(b"foobar"), 1000), Some((-790_332_482_i32 & 0x7fff_ffff) % 1000));
        assert!(rule.by_key(Some(b""), 7).is_some(), "an empty key is a key");
        assert_eq!(rule.by_key(None, 7), None);
        assert_eq!(Partitioning { ignore_keys: true, ..rule }.by_key(Some(b"k"), 7), None);
    }

    #[test]
    fn null_and_empty_keys_go_where_librdkafka_sends_them() {
        // CRC-32 of nothing is 0.
        assert_eq!(rule(Partitioner::Consistent).by_key(None, 7), Some(0));
        assert_eq!(rule(Partitioner::Consistent).by_key(Some(b""), 7), Some(0));
        assert_eq!(rule(Partitioner::ConsistentRandom).by_key(Some(b""), 7), None);
        assert_eq!(
            rule(Partitioner::Consistent).by_key(Some(b"123456789"), 1000),
            Some((0xcbf4_3926_u32 % 1000) as i32)
        );
        // FNV-1a of nothing is its offset, 0x811c9dc5, which is negative.
        let nothing = (0x811c_9dc5_u32 as i32).unsigned_abs() % 1000;
        assert_eq!(rule(Partitioner::Fnv1a).by_key(None, 1000), Some(nothing as i32));
        assert_eq!(rule(Partitioner::Fnv1aRandom).by_key(None, 1000), None);
        assert_eq!(rule(Partitioner::Fnv1aRandom).by_key(Some(b""), 1000), Some(nothing as i32));
    }
}
