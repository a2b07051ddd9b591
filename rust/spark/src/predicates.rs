//! Predicates as bounds of the offsets that are read at all. Spark evaluates every predicate that is not exact here again on
//! what is read: here is only decided what need not be.

use std::collections::{BTreeMap, BTreeSet};

use samsarrow_client::types::TopicPartition;

/// The first offset wanted, and the one after the last.
pub type Window = (Option<i64>, Option<i64>);

/// What rows must be like to be wanted; nothing given allows everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Predicates {
    /// Names that a row's topic may have.
    pub topics: Option<BTreeSet<String>>,
    /// Numbers that a row's partition may have.
    pub partitions: Option<BTreeSet<i32>>,
    /// Partitions that a row may be of, each with a window of its own.
    pub places: Option<BTreeMap<TopicPartition, Window>>,
    /// For the offsets of all partitions.
    pub offsets: Window,
    /// The lowest time that a row may have. An upper one would help nobody: later records may be older.
    pub since: Option<i64>,
}

impl Predicates {
    /// Whether rows of this partition can be wanted.
    pub fn allow(&self, tp: &TopicPartition) -> bool {
        self.topics.as_ref().is_none_or(|topics| topics.contains(&*tp.topic))
            && self.partitions.as_ref().is_none_or(|partitions| partitions.contains(&tp.partition))
            && self.places.as_ref().is_none_or(|places| places.contains_key(tp))
    }

    /// The part of a range that can have wanted rows; empty ones end where they start.
    pub fn clip(&self, tp: &TopicPartition, start: i64, end: i64) -> (i64, i64) {
        let own = self.places.as_ref().and_then(|places| places.get(tp)).copied().unwrap_or_default();
        let windows = [self.offsets, own];
        let low = windows.iter().filter_map(|(first, _)| *first).fold(start, i64::max);
        let high = windows.iter().filter_map(|(_, end)| *end).fold(end, i64::min);
        (low, high.max(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_wanted_is_left_out() {
        let (a, b) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
        let all = Predicates::default();
        assert!(all.allow(&a) && all.clip(&a, 3, 9) == (3, 9));
        let topics = Predicates { topics: Some(["u".to_owned()].into()), ..Default::default() };
        assert!(!topics.allow(&a));
        let one = Predicates { partitions: Some([1].into()), ..Default::default() };
        assert!(!one.allow(&a) && one.allow(&b));
        let places = Predicates {
            places: Some([(a.clone(), (Some(5), None))].into()),
            offsets: (None, Some(7)),
            ..Default::default()
        };
        assert!(places.allow(&a) && !places.allow(&b));
        assert_eq!(places.clip(&a, 0, 100), (5, 7));
        assert_eq!(places.clip(&a, 8, 100), (8, 8));
    }
}
