//! Consumer groups: membership by the classic or the consumer protocol, assignors, and commits.
pub mod assignor;
mod classic;
pub(crate) mod commit_queue;
pub(crate) mod consumer_group;
mod consumer_protocol;
mod heartbeat;
pub(crate) mod member;
pub(crate) mod membership;
mod membership_task;
pub mod subscription;
mod topic_snapshot;

pub use commit_queue::Offsets;
pub use consumer_group::Completed;
pub(crate) use consumer_protocol::new_id as new_member_id;
pub use membership::{MemberIdentity, Rebalance};
