//! Who reads what: the assignors of Kafka's consumers, by which the leader of a classic group divides partitions.
//!
//! They are pure functions of what the members said, so a group may mix clients: the rules and the bytes are those of
//! Java's assignors of the same names, whichever of them leads.

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

/// What a member said when it joined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscription {
    /// The topics that it wants.
    pub topics: Vec<String>,
    /// What its assignor has to say.
    pub user_data: Option<Bytes>,
    /// The partitions that it reads now; none in an eager rebalance.
    pub owned: Vec<TopicPartition>,
    /// The generation of which it owns them.
    pub generation: Option<i32>,
    /// The rack that it is in (KIP-881).
    pub rack: Option<String>,
    /// The id of a static member (KIP-345). It is not among the encoded bytes: JoinGroup has it beside them.
    pub instance_id: Option<String>,
}

/// Partitions of the topics that members are subscribed to: racks of the replicas (none where they are not known) by
/// partition number. A topic that does not exist is absent.
pub type Topics = BTreeMap<String, Vec<Vec<String>>>;
/// What the members said, by member id.
pub type Members = BTreeMap<String, Subscription>;
/// What every member is to read, by member id.
pub type Assignment = BTreeMap<String, Vec<TopicPartition>>;

/// A way to divide partitions among members.
pub trait Assignor: Send + Sync + Debug {
    /// The name of its protocol, which all members of a group must know.
    fn name(&self) -> &str;

    /// Whether members go on reading what they keep while the group rebalances (KIP-429).
    fn cooperative(&self) -> bool {
        false
    }

    /// Returns data that a member sends the leader in its next subscription: `owned` is what it was assigned in `generation`, of a
    /// cooperative member what it still has of that.
    ///
    /// # Errors
    /// What an assignor of the program's own raises.
    fn user_data(&self, _owned: &[TopicPartition], _generation: i32) -> Result<Option<Bytes>> {
        Ok(None)
    }

    /// Divides the partitions; every member is in the result.
    fn assign(&self, topics: &Topics, members: &Members) -> Result<Assignment>;
}

/// The assignor of a name, which may be that of Java's class.
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
