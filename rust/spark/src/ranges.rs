//! Offset ranges that Spark tasks read.

use std::collections::BTreeSet;

use samsarrow_client::types::TopicPartition;

/// Offsets of one partition, from `start` inclusive to `end` exclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetRange {
    pub tp: TopicPartition,
    pub start: i64,
    /// Offset after the last offset of the range.
    pub end: i64,
}

impl OffsetRange {
    /// Returns the number of offsets in the range.
    pub fn size(&self) -> i64 {
        self.end.saturating_sub(self.start).max(0)
    }
}

/// Splits large ranges into several tasks by the rules of Spark's connector, and drops empty ranges. `min_partitions`
/// is the approximate minimum number of tasks. To reach it, large ranges are split in proportion to their size.
/// `max_records` is the maximum number of offsets per task.
pub fn split(ranges: &[OffsetRange], min_partitions: Option<u64>, max_records: Option<u64>) -> Vec<OffsetRange> {
    let mut result: Vec<OffsetRange> = ranges.iter().filter(|range| range.size() > 0).cloned().collect();
    if let Some(max) = max_records {
        result = result.iter().flat_map(|range| cut(range, (range.size() as u64).div_ceil(max))).collect();
    }
    let Some(min) = min_partitions.filter(|min| (result.len() as u64) < *min) else { return result };
    // Partitions whose range is not split are excluded from the distribution, so that the other partitions share the
    // remaining tasks.
    let total: i64 = result.iter().map(OffsetRange::size).sum();
    let whole: Vec<&OffsetRange> = result.iter().filter(|range| task_count(range, total, min) == 1).collect();
    let partitions: BTreeSet<&TopicPartition> = whole.iter().map(|range| &range.tp).collect();
    let rest = total - whole.iter().map(|range| range.size()).sum::<i64>();
    let remaining = min.saturating_sub(whole.len() as u64).max(1);
    let parts =
        |range: &OffsetRange| if partitions.contains(&range.tp) { 1 } else { task_count(range, rest, remaining) };
    result.iter().flat_map(|range| cut(range, parts(range))).collect()
}

/// Returns the number of tasks for a range. As in Java, one half is rounded up.
fn task_count(range: &OffsetRange, total: i64, parts: u64) -> u64 {
    ((range.size() as f64 / total as f64 * parts as f64 + 0.5).floor() as u64).max(1)
}

fn cut(range: &OffsetRange, parts: u64) -> Vec<OffsetRange> {
    let parts = i64::try_from(parts).unwrap_or(i64::MAX).min(range.size());
    let mut start = range.start;
    let piece = |remaining: i64| {
        let end = start + (range.end - start) / remaining;
        let piece = OffsetRange { tp: range.tp.clone(), start, end };
        start = end;
        piece
    };
    (1..=parts).rev().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(partition: i32, start: i64, end: i64) -> OffsetRange {
        OffsetRange { tp: TopicPartition::new("t", partition), start, end }
    }

    #[test]
    fn split_covers_each_range_once() {
        let ranges = [range(0, 10, 110), range(1, 0, 3)];
        let parts = split(&ranges, Some(7), None);
        assert!((7..=8).contains(&parts.len()));
        for range in ranges {
            let own = parts.iter().filter(|part| part.tp == range.tp);
            let offsets: Vec<i64> = own.flat_map(|part| part.start..part.end).collect();
            assert_eq!(offsets, (range.start..range.end).collect::<Vec<_>>());
        }
    }

    #[test]
    fn split_keeps_ranges_if_there_are_enough() {
        let ranges = [range(0, 0, 5), range(1, 0, 5), range(2, 0, 5)];
        assert_eq!(split(&ranges, Some(3), None), ranges);
        assert_eq!(split(&ranges, None, None), ranges);
        assert_eq!(split(&[], Some(4), None), []);
        assert_eq!(split(&[range(0, 5, 5), range(1, 9, 3)], Some(4), Some(2)), []);
    }

    /// The numbers are taken from the tests of the connector's range calculator. Small ranges are not split, and large
    /// ranges share the remaining tasks.
    #[test]
    fn split_equals_that_of_sparks_connector() {
        let parts = split(&[range(0, 0, 2), range(1, 0, 1), range(2, 0, 1000)], Some(6), None);
        let sizes: Vec<_> = parts.iter().map(|part| (part.tp.partition, part.size())).collect();
        assert_eq!(sizes, [(0, 2), (1, 1), (2, 250), (2, 250), (2, 250), (2, 250)]);
        let parts = split(&[range(0, 0, 7)], None, Some(3));
        assert_eq!(parts.iter().map(|p| (p.start, p.end)).collect::<Vec<_>>(), [(0, 2), (2, 4), (4, 7)]);
    }
}
