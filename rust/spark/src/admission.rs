//! How much of what is there a micro-batch takes.

use std::time::{Duration, Instant};

use crate::offsets::Offsets;

/// Ends of a micro-batch of about `limit` offsets, each partition in proportion to its backlog. `new` are the first offsets
/// of partitions that are not in `start`.
pub fn share(limit: u64, start: &Offsets, latest: &Offsets, new: &Offsets) -> Offsets {
    // One that is in neither is gone, or came this moment: it counts nothing, and its range is that of its end.
    let begin = |tp, end| start.get(tp).or_else(|| new.get(tp)).copied().unwrap_or(end);
    let sizes: Vec<i64> = latest.iter().map(|(tp, end)| end - begin(tp, *end)).collect();
    let total: i64 = sizes.iter().filter(|size| **size > 0).sum();
    let mut result = latest.clone();
    for (end, size) in result.values_mut().zip(sizes).filter(|(_, size)| *size > 0) {
        // The least share is one offset: small partitions do not starve beside large ones.
        let part = limit as f64 * (size as f64 / total as f64);
        let part = if part < 1.0 { part.ceil() } else { part.floor() };
        *end = (*end).min((*end - size).saturating_add(part as i64));
    }
    result
}

/// Waits for `minOffsetsPerTrigger`, but no longer than `maxTriggerDelay`.
#[derive(Debug)]
pub struct Patience {
    least: u64,
    delay: Duration,
    /// The first micro-batch starts with whatever there is.
    started: Option<Instant>,
}

impl Patience {
    /// For this many offsets.
    pub fn new(least: u64, delay: Duration) -> Self {
        Self { least, delay, started: None }
    }

    /// Whether the micro-batch should wait for more.
    pub fn wait(&mut self, start: &Offsets, latest: &Offsets, now: Instant) -> bool {
        // A partition that is new counts from 0: its records may be fewer, and are read a little earlier then.
        let waiting: i64 = latest.iter().map(|(tp, end)| end - start.get(tp).copied().unwrap_or_default()).sum();
        let few = u64::try_from(waiting).is_ok_and(|waiting| waiting < self.least) || waiting < 0;
        if self.started.is_some_and(|started| now.duration_since(started) < self.delay) && few {
            return true;
        }
        self.started = Some(now);
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
    fn shares_follow_the_backlog_and_starve_nobody() {
        type Case<'a> = (u64, &'a [(i32, i64)], &'a [(i32, i64)], &'a [(i32, i64)], &'a [(i32, i64)]);
        let cases: [Case<'_>; 4] = [
            (10, &[(0, 0), (1, 0)], &[(0, 90), (1, 10)], &[], &[(0, 9), (1, 1)]),
            (10, &[(0, 0), (1, 0), (2, 5)], &[(0, 10_000), (1, 1), (2, 5)], &[], &[(0, 9), (1, 1), (2, 5)]),
            (100, &[(0, 3)], &[(0, 10), (1, 70)], &[(1, 60)], &[(0, 10), (1, 70)]),
            (5, &[(0, 7)], &[(0, 7)], &[], &[(0, 7)]),
        ];
        for (limit, start, latest, new, wanted) in cases {
            assert_eq!(share(limit, &offsets(start), &offsets(latest), &offsets(new)), offsets(wanted));
        }
    }

    #[test]
    fn patience_ends() {
        let begin = Instant::now();
        let mut patience = Patience::new(10, Duration::from_secs(60));
        let mut waits = |s, start, end| {
            patience.wait(&offsets(&[(0, start)]), &offsets(&[(0, end)]), begin + Duration::from_secs(s))
        };
        assert!(!waits(0, 0, 1), "the first micro-batch takes what there is");
        assert!(waits(59, 1, 10));
        assert!(!waits(59, 1, 11));
        assert!(waits(100, 11, 12));
        assert!(!waits(119, 11, 12));
    }
}
