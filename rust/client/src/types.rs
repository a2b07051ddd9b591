//! What all rooms speak of: kinds of clients, partitions and offsets, members of groups.

use std::fmt;
use std::sync::Arc;

/// Which client is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    /// Sends records.
    Producer,
    /// Reads records.
    Consumer,
    /// Creates and deletes topics.
    Admin,
}

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

/// A change of what a member owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rebalance {
    /// These are to be given up, and can still be committed.
    Revoked(Vec<TopicPartition>),
    /// These belong to others already.
    Lost(Vec<TopicPartition>),
    /// These are new.
    Assigned(Vec<TopicPartition>),
}

/// Who commits: with a generation of −1 somebody who is no member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The coordinator's name for the member.
    pub member_id: String,
    /// The generation, or the member's epoch (KIP-848).
    pub generation: i32,
    /// Of a static member.
    pub instance_id: Option<String>,
}

impl Default for Identity {
    fn default() -> Self {
        Self { member_id: String::new(), generation: -1, instance_id: None }
    }
}
