//! Partition assignors of Kafka's consumers, used by the leader of a classic group.
//!
//! Assignors are pure functions of the members' subscriptions. They follow the rules and the encoding of Java's
//! assignors of the same names, so that a group can contain different clients and any of these can lead the group.

mod encoding;
mod group;
mod range;
mod roundrobin;
mod sticky;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Result;
use crate::types::TopicPartition;

pub use encoding::{decode_assignment, encode_assignment};
pub use range::Range;
pub use roundrobin::RoundRobin;
pub use sticky::{CooperativeSticky, Sticky};

/// Subscription of a member, sent with JoinGroup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscription {
    /// Subscribed topics.
    pub topics: Vec<String>,
    /// User data of the assignor.
    pub user_data: Option<Bytes>,
    /// Partitions that the member owns; empty in an eager rebalance.
    pub owned: Vec<TopicPartition>,
    /// Generation in which the partitions were assigned.
    pub generation: Option<i32>,
    /// Rack of the member (KIP-881).
    pub rack: Option<String>,
    /// Group instance id of a static member (KIP-345). JoinGroup has a separate field for it, so it is not encoded.
    pub instance_id: Option<String>,
}

/// Racks of the replicas by partition number (empty if unknown), for every subscribed topic that exists.
pub type Topics = BTreeMap<String, Vec<Vec<String>>>;
/// Subscriptions by member id.
pub type Members = BTreeMap<String, Subscription>;
/// Assigned partitions by member id.
pub type Assignment = BTreeMap<String, Vec<TopicPartition>>;

/// Assigns partitions to the members of a group.
pub trait Assignor: Send + Sync + Debug {
    /// Returns the name of the assignor's protocol, which all members of a group must support.
    fn name(&self) -> &str;

    /// Returns true if members continue to consume their partitions during a rebalance (KIP-429).
    fn cooperative(&self) -> bool {
        false
    }

    /// Returns the user data of the member's next subscription. `owned` are the partitions assigned in `generation`; a
    /// cooperative member passes only the partitions that it still owns.
    ///
    /// # Errors
    /// Fails only if a custom assignor fails.
    fn user_data(&self, _owned: &[TopicPartition], _generation: i32) -> Result<Option<Bytes>> {
        Ok(None)
    }

    /// Assigns the partitions. The result contains every member, even a member without partitions.
    fn assign(&self, topics: &Topics, members: &Members) -> Result<Assignment>;
}

/// Returns the built-in assignor with this name or Java class name.
pub fn by_name(name: &str) -> Option<Arc<dyn Assignor>> {
    let java = "org.apache.kafka.clients.consumer.";
    match name.strip_prefix(java).unwrap_or(name) {
        "range" | "RangeAssignor" => Some(Arc::new(Range)),
        "roundrobin" | "RoundRobinAssignor" => Some(Arc::new(RoundRobin)),
        "sticky" | "StickyAssignor" => Some(Arc::new(Sticky)),
        "cooperative-sticky" | "CooperativeStickyAssignor" => Some(Arc::new(CooperativeSticky)),
        _ => None,
    }
}
