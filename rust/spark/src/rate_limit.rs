//! Limits of the size of micro-batches: `maxOffsetsPerTrigger` and `minOffsetsPerTrigger`.

use std::time::{Duration, Instant};

use crate::offsets::Offsets;

/// Returns the end of a micro-batch of about `limit` offsets, which are distributed over the partitions in proportion
/// to their backlogs. `new` contains the first offsets of partitions that `start` does not contain.
pub fn distribute_limit(limit: u64, start: &Offsets, latest: &Offsets, new: &Offsets) -> Offsets {
    // A partition that is neither in `start` nor in `new` was just created or deleted. It counts as having no backlog,
    // so its end does not change.
    let begin = |tp, end| start.get(tp).or_else(|| new.get(tp)).copied().unwrap_or(end);
    let sizes: Vec<i64> = latest.iter().map(|(tp, end)| end - begin(tp, *end)).collect();
    let total: i64 = sizes.iter().filter(|size| **size > 0).sum();
    let mut result = latest.clone();
    for (end, size) in result.values_mut().zip(sizes).filter(|(_, size)| *size > 0) {
        // Each partition with a backlog gets at least one offset, so that small partitions are not starved by large
        // ones.
        let part = limit as f64 * (size as f64 / total as f64);
        let part = if part < 1.0 { part.ceil() } else { part.floor() };
        *end = (*end).min((*end - size).saturating_add(part as i64));
    }
    result
}

/// Decides whether a micro-batch waits for `minOffsetsPerTrigger`, at most for `maxTriggerDelay`.
#[derive(Debug)]
pub struct MinOffsetsTrigger {
    min_offsets: u64,
    max_delay: Duration,
    /// Start of the last micro-batch that was not delayed. `None` before the first micro-batch, which never waits.
    last_start: Option<Instant>,
}

impl MinOffsetsTrigger {
    pub fn new(min_offsets: u64, max_delay: Duration) -> Self {
        Self { min_offsets, max_delay, last_start: None }
    }

    /// Returns true if the micro-batch should wait for more records.
    pub fn should_wait(&mut self, start: &Offsets, latest: &Offsets, now: Instant) -> bool {
        // New partitions count from offset 0. If a new partition starts at a later offset, it has fewer records than
        // are counted, and the micro-batch may start a little earlier.
        let available: i64 = latest.iter().map(|(tp, end)| end - start.get(tp).copied().unwrap_or_default()).sum();
        let too_few = u64::try_from(available).is_ok_and(|available| available < self.min_offsets) || available < 0;
        if self.last_start.is_some_and(|last_start| now.duration_since(last_start) < self.max_delay) && too_few {
            return true;
        }
        self.last_start = Some(now);
        false
    }
}

#[cfg(test)]
mod tests {
    use samsarrow_client::types::TopicPartition;

    use super::*;

    fn offsets(list: &[(i32, i64)]) -> Offsets {
        list.iter().map(|(p, offset)| (TopicPartition::new("t", *p), *offset)).collect()
    }

    #[test]
    fn limit_is_distributed_by_backlog() {
        type Case<'a> = (u64, &'a [(i32, i64)], &'a [(i32, i64)], &'a [(i32, i64)], &'a [(i32, i64)]);
        let cases: [Case<'_>; 4] = [
            (10, &[(0, 0), (1, 0)], &[(0, 90), (1, 10)], &[], &[(0, 9), (1, 1)]),
            (10, &[(0, 0), (1, 0), (2, 5)], &[(0, 10_000), (1, 1), (2, 5)], &[], &[(0, 9), (1, 1), (2, 5)]),
            (100, &[(0, 3)], &[(0, 10), (1, 70)], &[(1, 60)], &[(0, 10), (1, 70)]),
            (5, &[(0, 7)], &[(0, 7)], &[], &[(0, 7)]),
        ];
        for (limit, start, latest, new, expected) in cases {
            assert_eq!(distribute_limit(limit, &offsets(start), &offsets(latest), &offsets(new)), offsets(expected));
        }
    }

    #[test]
    fn wait_for_min_offsets_ends_after_max_delay() {
        let begin = Instant::now();
        let mut trigger = MinOffsetsTrigger::new(10, Duration::from_secs(60));
        let mut waits = |s, start, end| {
            trigger.should_wait(&offsets(&[(0, start)]), &offsets(&[(0, end)]), begin + Duration::from_secs(s))
        };
        assert!(!waits(0, 0, 1), "the first micro-batch does not wait");
        assert!(waits(59, 1, 10));
        assert!(!waits(59, 1, 11));
        assert!(waits(100, 11, 12));
        assert!(!waits(119, 11, 12));
    }
}
