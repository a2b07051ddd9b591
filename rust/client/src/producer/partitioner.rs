//! Partitioners for records without an explicit partition, compatible with the Java client and librdkafka.
//!
//! A partitioner may choose the partition by the key. Other records go to one partition until it has received the bytes
//! of one batch, and then to another partition, so that batches fill up (KIP-480). The next partition is chosen
//! randomly, with a higher probability for partitions with short queues (KIP-794).

use std::time::Duration;

use samsarrow_wire::{crc, murmur2};

use crate::config::Partitioner;

/// Partitioner settings of a producer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Partitioning {
    pub(crate) by: Partitioner,
    pub(crate) ignore_keys: bool,
    /// True if partitions with long queues are chosen less often (`partitioner.adaptive.partitioning.enable`).
    pub(crate) adaptive: bool,
    /// Time after which a stalled broker is avoided (`partitioner.availability.timeout.ms`).
    pub(crate) availability_timeout: Option<Duration>,
}

impl Partitioning {
    /// Returns the partition out of `count` if the key alone determines it.
    #[inline]
    pub(crate) fn by_key(&self, key: Option<&[u8]>, count: i32) -> Option<i32> {
        if self.ignore_keys {
            return None;
        }
        match self.by {
            Partitioner::Murmur2 => key.map(|key| murmur2::partition(key, count)),
            Partitioner::RoundRobin => None,
            // These partitioners treat a null key like an empty key.
            Partitioner::Consistent => Some(by_hash(crc::crc32(key.unwrap_or_default()), count)),
            Partitioner::ConsistentRandom => {
                key.filter(|key| !key.is_empty()).map(|key| by_hash(crc::crc32(key), count))
            }
            Partitioner::Fnv1a => Some(by_hash(fnv1a(key.unwrap_or_default()), count)),
            Partitioner::Fnv1aRandom => key.map(|key| by_hash(fnv1a(key), count)),
        }
    }

    /// Returns true if the key determines the partition of every record.
    pub(crate) fn keys_decide_all(&self) -> bool {
        !self.ignore_keys && matches!(self.by, Partitioner::Consistent | Partitioner::Fnv1a)
    }

    /// Returns true if keys are used.
    pub(crate) fn uses_keys(&self) -> bool {
        !self.ignore_keys && self.by != Partitioner::RoundRobin
    }

    /// Returns the number of bytes after which records without a key switch to another partition, given the size of a
    /// batch.
    pub(crate) fn switch_at(&self, batch: usize) -> usize {
        if self.by == Partitioner::RoundRobin { 0 } else { batch }
    }

    fn is_round_robin(&self) -> bool {
        self.by == Partitioner::RoundRobin
    }
}

#[inline]
fn by_hash(hash: u32, count: i32) -> i32 {
    (hash % count.max(1).cast_unsigned()).cast_signed()
}

/// Returns the absolute value of 32-bit FNV-1a, like librdkafka and Sarama.
fn fnv1a(data: &[u8]) -> u32 {
    let hash = data.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    hash.cast_signed().wrapping_abs().cast_unsigned()
}

/// Available partitions and their weights.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choices {
    partitions: Vec<i32>,
    /// Cumulative weights of the partitions; empty if all weights are equal.
    sums: Vec<usize>,
    count: i32,
}

impl Choices {
    /// Creates the choices for a topic with `count` partitions. `available` contains the partitions to choose from,
    /// with their queue lengths.
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

    /// Returns the number of partitions of the topic.
    pub(crate) fn count(&self) -> i32 {
        self.count
    }

    /// Returns [`count`](Self::count) as `usize`.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    fn pick_random(&self) -> i32 {
        match (self.partitions.as_slice(), self.sums.last()) {
            // Without any leader, every partition may be the first to recover.
            ([], _) => fastrand::i32(0..self.count.max(1)),
            (partitions, None) => fastrand::choice(partitions).copied().unwrap_or(0),
            (partitions, Some(total)) => {
                let drawn = fastrand::usize(0..(*total).max(1));
                let at = self.sums.partition_point(|sum| *sum <= drawn);
                partitions.get(at).copied().unwrap_or(0)
            }
        }
    }

    fn pick_next(&self, previous: Option<i32>) -> i32 {
        let following = previous.and_then(|previous| self.partitions.iter().find(|next| **next > previous));
        let start =
            || if previous.is_none() { self.pick_random() } else { self.partitions.first().copied().unwrap_or(0) };
        following.copied().unwrap_or_else(start)
    }
}

/// Partition to which records currently stick.
#[derive(Debug, Default)]
pub(crate) struct Sticky {
    current: Option<i32>,
    bytes: usize,
}

impl Sticky {
    /// Returns the current partition for the next `bytes`, or `None` once `switch_at` bytes were assigned to it. The
    /// caller must then [switch](Self::switch).
    #[inline]
    pub(crate) fn current_for(&mut self, bytes: usize, switch_at: usize) -> Option<i32> {
        let current = self.current.filter(|_| self.bytes < switch_at)?;
        self.bytes = self.bytes.saturating_add(bytes);
        Some(current)
    }

    /// Switches to another partition for the next `bytes` and returns it.
    pub(crate) fn switch(&mut self, partitioning: &Partitioning, choices: &Choices, bytes: usize) -> i32 {
        let next = if partitioning.is_round_robin() {
            choices.pick_next(self.current)
        } else {
            // Does not choose the current partition again if there are other partitions, unless queue lengths weight
            // the choice.
            let mut next = choices.pick_random();
            while choices.sums.is_empty() && choices.partitions.len() > 1 && Some(next) == self.current {
                next = choices.pick_random();
            }
            next
        };
        self.current = Some(next);
        self.bytes = bytes;
        next
    }

    /// Returns the partition for the first of `sizes`, and the number of rows assigned to it.
    pub(crate) fn assign_run(
        &mut self,
        partitioning: &Partitioning,
        choices: &Choices,
        sizes: &[u32],
        switch_at: usize,
    ) -> (i32, usize) {
        let first = sizes.first().map_or(0, |size| *size as usize);
        let partition = self.current_for(first, switch_at).unwrap_or_else(|| self.switch(partitioning, choices, first));
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
        Partitioning { by, ignore_keys: false, adaptive: true, availability_timeout: None }
    }

    fn even(partitions: &[i32], count: i32) -> Choices {
        Choices::new(partitions.iter().map(|partition| (*partition, 0)), count, true)
    }

    fn pick(sticky: &mut Sticky, rule: &Partitioning, choices: &Choices, bytes: usize) -> i32 {
        sticky.current_for(bytes, rule.switch_at(100)).unwrap_or_else(|| sticky.switch(rule, choices, bytes))
    }

    #[test]
    fn sticks_for_one_batch() {
        let (mut sticky, rule, choices) = (Sticky::default(), rule(Partitioner::Murmur2), even(&[0, 1, 2], 4));
        let first = pick(&mut sticky, &rule, &choices, 60);
        assert_eq!(pick(&mut sticky, &rule, &choices, 60), first);
        let second = pick(&mut sticky, &rule, &choices, 60);
        assert_ne!(second, first);
        assert!((0..3).contains(&second), "3 has no leader");
    }

    #[test]
    fn run_equals_single_picks() {
        let (rule, choices) = (rule(Partitioner::Murmur2), even(&[0, 1, 2], 3));
        let mut sticky = Sticky::default();
        assert_eq!(sticky.assign_run(&rule, &choices, &[60; 5], 100).1, 2);
        assert_eq!(sticky.assign_run(&rule, &choices, &[10; 5], 100).1, 5);
        assert_eq!(sticky.assign_run(&rule, &choices, &[60; 5], 100).1, 1, "50 bytes are there already");
    }

    #[test]
    fn works_with_one_partition_and_with_no_leader() {
        let (mut sticky, rule) = (Sticky::default(), rule(Partitioner::Murmur2));
        assert_eq!(pick(&mut sticky, &rule, &even(&[2], 3), 200), 2);
        assert_eq!(pick(&mut sticky, &rule, &even(&[2], 3), 200), 2);
        assert!((0..3).contains(&pick(&mut Sticky::default(), &rule, &even(&[], 3), 1)));
    }

    #[test]
    fn round_robin_ignores_keys() {
        let (mut sticky, rule, choices) = (Sticky::default(), rule(Partitioner::RoundRobin), even(&[0, 2, 3], 4));
        assert_eq!(rule.by_key(Some(b"k"), 4), None);
        let mut seen: Vec<i32> = (0..6).map(|_| pick(&mut sticky, &rule, &choices, 1)).collect();
        assert_eq!(seen[..3], seen[3..]);
        seen.truncate(3);
        seen.sort_unstable();
        assert_eq!(seen, [0, 2, 3]);
    }

    #[test]
    fn adaptive_prefers_short_queues() {
        let choices = Choices::new([(0, 9), (1, 0), (2, 9)].into_iter(), 3, true);
        let drawn = (0..6000).filter(|_| choices.pick_random() == 1).count();
        // Partition 1 has 10 of 12 weights, so 5000 of 6000 picks are expected.
        assert!((4700..5300).contains(&drawn), "{drawn}");
        let choices = Choices::new([(0, 9), (1, 0), (2, 9)].into_iter(), 3, false);
        let drawn = (0..6000).filter(|_| choices.pick_random() == 1).count();
        assert!((1700..2300).contains(&drawn), "{drawn}");
    }

    #[test]
    fn murmur2_matches_java() {
        // murmur2("foobar") = -790332482 in Java's own test; masked to 31 bits before the modulo.
        let rule = rule(Partitioner::Murmur2);
        assert_eq!(rule.by_key(Some(b"foobar"), 1000), Some((-790_332_482_i32 & 0x7fff_ffff) % 1000));
        assert!(rule.by_key(Some(b""), 7).is_some(), "an empty key is a key");
        assert_eq!(rule.by_key(None, 7), None);
        assert_eq!(Partitioning { ignore_keys: true, ..rule }.by_key(Some(b"k"), 7), None);
    }

    #[test]
    fn null_and_empty_keys_match_librdkafka() {
        // CRC-32 of empty input is 0.
        assert_eq!(rule(Partitioner::Consistent).by_key(None, 7), Some(0));
        assert_eq!(rule(Partitioner::Consistent).by_key(Some(b""), 7), Some(0));
        assert_eq!(rule(Partitioner::ConsistentRandom).by_key(Some(b""), 7), None);
        assert_eq!(
            rule(Partitioner::Consistent).by_key(Some(b"123456789"), 1000),
            Some((0xcbf4_3926_u32 % 1000) as i32)
        );
        // FNV-1a of empty input is its offset basis, 0x811c9dc5, which is negative.
        let nothing = (0x811c_9dc5_u32 as i32).unsigned_abs() % 1000;
        assert_eq!(rule(Partitioner::Fnv1a).by_key(None, 1000), Some(nothing as i32));
        assert_eq!(rule(Partitioner::Fnv1aRandom).by_key(None, 1000), None);
        assert_eq!(rule(Partitioner::Fnv1aRandom).by_key(Some(b""), 1000), Some(nothing as i32));
    }
}
