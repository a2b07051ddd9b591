//! Types that all modules of the client share.

use std::fmt;
use std::sync::Arc;

/// Kind of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    /// Producer.
    Producer,
    /// Consumer.
    Consumer,
    /// Admin client.
    Admin,
}

/// Topic and partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// Topic name.
    pub topic: Arc<str>,
    /// Partition number.
    pub partition: i32,
}

impl TopicPartition {
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Committed offset of a partition, with its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OffsetAndMetadata {
    /// Offset of the next record to read.
    pub offset: i64,
    /// Application-defined text.
    pub metadata: String,
    /// Leader epoch of the last consumed record, if known (KIP-320).
    pub leader_epoch: Option<i32>,
}

/// Offset of a record and its timestamp, as returned by ListOffsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetAndTimestamp {
    /// Offset.
    pub offset: i64,
    /// Timestamp in milliseconds since 1970; −1 if the broker returns none.
    pub timestamp: i64,
    /// Leader epoch of the record, if the broker reports it.
    pub leader_epoch: Option<i32>,
}

/// Joins the first ten items for an error text and adds the number of further items.
pub(crate) fn join_limited<T: fmt::Display>(list: impl IntoIterator<Item = T>) -> String {
    let mut names: Vec<String> = list.into_iter().map(|item| item.to_string()).collect();
    let more = names.len().saturating_sub(10);
    names.truncate(10);
    let text = names.join(", ");
    if more == 0 { text } else { format!("{text} and {more} more") }
}

/// Change of a member's assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rebalance {
    /// Partitions that are revoked. Their offsets can still be committed.
    Revoked(Vec<TopicPartition>),
    /// Partitions that were lost, because other members already own them.
    Lost(Vec<TopicPartition>),
    /// Newly assigned partitions.
    Assigned(Vec<TopicPartition>),
}

/// Identity of a group member that commits offsets. For a consumer outside a group, the generation is −1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberIdentity {
    /// Member id assigned by the coordinator.
    pub member_id: String,
    /// Generation id of the group or, with KIP-848, member epoch.
    pub generation: i32,
    /// Instance id of a static member.
    pub instance_id: Option<String>,
}

impl Default for MemberIdentity {
    fn default() -> Self {
        Self { member_id: String::new(), generation: -1, instance_id: None }
    }
}
