//! Partition assignors of Kafka's consumers, used by the leader of a classic group.
//!
//! They are pure functions of the members' subscriptions and match Java's assignors of the same names in rules and
//! encoding, so that a group may mix clients, whichever of them leads.

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

/// Subscribed topics: racks of the replicas by partition number (empty if unknown). Topics that do not exist are
/// absent.
pub type Topics = BTreeMap<String, Vec<Vec<String>>>;
/// Subscriptions by member id.
pub type Members = BTreeMap<String, Subscription>;
/// Assigned partitions by member id.
pub type Assignment = BTreeMap<String, Vec<TopicPartition>>;

/// Assigns partitions to the members of a group.
pub trait Assignor: Send + Sync + Debug {
    /// Returns the name of its protocol, which all members of a group must support.
    fn name(&self) -> &str;

    /// Returns true if members continue to consume their partitions during a rebalance (KIP-429).
    fn cooperative(&self) -> bool {
        false
    }

    /// Returns the user data of the member's next subscription. `owned` are the partitions assigned in `generation`;
    /// for a cooperative member, those of them that it still has.
    ///
    /// # Errors
    /// Errors of a custom assignor.
    fn user_data(&self, _owned: &[TopicPartition], _generation: i32) -> Result<Option<Bytes>> {
        Ok(None)
    }

    /// Assigns the partitions. Every member is in the result.
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
