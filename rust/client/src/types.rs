//! Topic partitions and offsets.

use std::fmt;
use std::sync::Arc;

/// One partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A committed offset: the next one to read, and what was committed with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OffsetAndMetadata {
    /// The next offset to read.
    pub offset: i64,
    /// Any text of the committer's.
    pub metadata: String,
    /// Leader epoch of the last record that was read, if it is known (KIP-320).
    pub leader_epoch: Option<i32>,
}

/// An offset that a broker found, and the timestamp of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetAndTimestamp {
    /// The offset.
    pub offset: i64,
    /// Milliseconds since 1970, −1 where the broker gives none.
    pub timestamp: i64,
    /// Leader epoch of the record, if the broker reports it.
    pub leader_epoch: Option<i32>,
}

/// Items of `list` one after the other, at most ten, for texts of errors.
pub(crate) fn some_of<T: fmt::Display>(list: impl IntoIterator<Item = T>) -> String {
    let mut names: Vec<String> = list.into_iter().map(|item| item.to_string()).collect();
    let more = names.len().saturating_sub(10);
    names.truncate(10);
    let text = names.join(", ");
    if more == 0 { text } else { format!("{text} and {more} more") }
}
