//! Offset ranges, one a Spark task.

use std::collections::BTreeSet;

use samsarrow_client::types::TopicPartition;

/// Offsets `start` up to, not including, `end` of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetRange {
    /// The partition.
    pub tp: TopicPartition,
    /// The first offset.
    pub start: i64,
    /// The offset after the last.
    pub end: i64,
}

impl OffsetRange {
    /// How many offsets.
    pub fn size(&self) -> i64 {
        self.end.saturating_sub(self.start).max(0)
    }
}

/// Cuts large ranges into tasks, by the connector's rules; empty ones are left out. With `min_partitions` there are about
/// that many tasks at least, large ranges being cut in proportion; with `max_records` no task has more offsets.
pub fn split(ranges: &[OffsetRange], min_partitions: Option<u64>, max_records: Option<u64>) -> Vec<OffsetRange> {
    let mut result: Vec<OffsetRange> = ranges.iter().filter(|range| range.size() > 0).cloned().collect();
    if let Some(most) = max_records {
        result = result.iter().flat_map(|range| cut(range, (range.size() as u64).div_ceil(most))).collect();
    }
    let Some(wanted) = min_partitions.filter(|wanted| (result.len() as u64) < *wanted) else { return result };
    // Partitions of which a range stays whole are left out of the proportion, so that others share all other tasks.
    let total: i64 = result.iter().map(OffsetRange::size).sum();
    let whole: Vec<&OffsetRange> = result.iter().filter(|range| share(range, total, wanted) == 1).collect();
    let partitions: BTreeSet<&TopicPartition> = whole.iter().map(|range| &range.tp).collect();
    let rest = total - whole.iter().map(|range| range.size()).sum::<i64>();
    let wanted = wanted.saturating_sub(whole.len() as u64).max(1);
    let parts = |range: &OffsetRange| if partitions.contains(&range.tp) { 1 } else { share(range, rest, wanted) };
    result.iter().flat_map(|range| cut(range, parts(range))).collect()
}

/// Half up, as Java rounds.
fn share(range: &OffsetRange, total: i64, parts: u64) -> u64 {
    ((range.size() as f64 / total as f64 * parts as f64 + 0.5).floor() as u64).max(1)
}

fn cut(range: &OffsetRange, parts: u64) -> Vec<OffsetRange> {
    let parts = i64::try_from(parts).unwrap_or(i64::MAX).min(range.size());
    let mut start = range.start;
    let piece = |left: i64| {
        let end = start + (range.end - start) / left;
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
    fn each_range_is_covered_once() {
        let ranges = [range(0, 10, 110), range(1, 0, 3)];
        let parts = split(&ranges, Some(7), None);
        assert!((7..=8).contains(&parts.len()));
        for range in ranges {
            let mine = parts.iter().filter(|part| part.tp == range.tp);
            let offsets: Vec<i64> = mine.flat_map(|part| part.start..part.end).collect();
            assert_eq!(offsets, (range.start..range.end).collect::<Vec<_>>());
        }
    }

    #[test]
    fn enough_partitions_are_left_alone() {
        let ranges = [range(0, 0, 5), range(1, 0, 5), range(2, 0, 5)];
        assert_eq!(split(&ranges, Some(3), None), ranges);
        assert_eq!(split(&ranges, None, None), ranges);
        assert_eq!(split(&[], Some(4), None), []);
        assert_eq!(split(&[range(0, 5, 5), range(1, 9, 3)], Some(4), Some(2)), []);
    }

    /// Numbers from the rules of its calculator: small ranges stay whole, the large ones share the rest.
    #[test]
    fn cuts_are_the_connectors() {
        let parts = split(&[range(0, 0, 2), range(1, 0, 1), range(2, 0, 1000)], Some(6), None);
        let sizes: Vec<_> = parts.iter().map(|part| (part.tp.partition, part.size())).collect();
        assert_eq!(sizes, [(0, 2), (1, 1), (2, 250), (2, 250), (2, 250), (2, 250)]);
        let parts = split(&[range(0, 0, 7)], None, Some(3));
        assert_eq!(parts.iter().map(|p| (p.start, p.end)).collect::<Vec<_>>(), [(0, 2), (2, 4), (4, 7)]);
    }
}
