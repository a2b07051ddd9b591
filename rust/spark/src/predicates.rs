//! Pushed-down predicates, represented as bounds of the offsets to read. The bounds must include all matching rows.
//! They may also include other rows, because Spark evaluates each predicate again unless the bounds represent it
//! exactly.

use std::collections::{BTreeMap, BTreeSet};

use samsarrow_client::types::TopicPartition;

/// First offset of a window, and the offset after its last offset. `None` means that there is no bound.
pub type Window = (Option<i64>, Option<i64>);

/// Bounds of the rows to read. The default includes all rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Predicates {
    /// Topics to read.
    pub topics: Option<BTreeSet<String>>,
    /// Partition numbers to read.
    pub partitions: Option<BTreeSet<i32>>,
    /// Partitions to read, and the offset window of each partition.
    pub windows: Option<BTreeMap<TopicPartition, Window>>,
    /// Offset window that applies to all partitions.
    pub offsets: Window,
    /// Minimum timestamp in milliseconds. There is no maximum, because later records may have earlier timestamps.
    pub since: Option<i64>,
}

impl Predicates {
    /// Returns true if this partition may contain matching rows.
    pub fn allow(&self, tp: &TopicPartition) -> bool {
        self.topics.as_ref().is_none_or(|topics| topics.contains(&*tp.topic))
            && self.partitions.as_ref().is_none_or(|partitions| partitions.contains(&tp.partition))
            && self.windows.as_ref().is_none_or(|windows| windows.contains_key(tp))
    }

    /// Limits a range to the offsets of rows that may match. If there are none, the range ends where it starts.
    pub fn clip(&self, tp: &TopicPartition, start: i64, end: i64) -> (i64, i64) {
        let partition = self.windows.as_ref().and_then(|windows| windows.get(tp)).copied().unwrap_or_default();
        let windows = [self.offsets, partition];
        let low = windows.iter().filter_map(|(first, _)| *first).fold(start, i64::max);
        let high = windows.iter().filter_map(|(_, end)| *end).fold(end, i64::min);
        (low, high.max(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_clipped_to_predicates() {
        let (a, b) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
        let all = Predicates::default();
        assert!(all.allow(&a) && all.clip(&a, 3, 9) == (3, 9));
        let topics = Predicates { topics: Some(["u".to_owned()].into()), ..Default::default() };
        assert!(!topics.allow(&a));
        let partitions = Predicates { partitions: Some([1].into()), ..Default::default() };
        assert!(!partitions.allow(&a) && partitions.allow(&b));
        let windows = Predicates {
            windows: Some([(a.clone(), (Some(5), None))].into()),
            offsets: (None, Some(7)),
            ..Default::default()
        };
        assert!(windows.allow(&a) && !windows.allow(&b));
        assert_eq!(windows.clip(&a, 0, 100), (5, 7));
        assert_eq!(windows.clip(&a, 8, 100), (8, 8));
    }
}
