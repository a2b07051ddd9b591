//! Share groups (KIP-932): members share partitions, and acknowledge single records.
//!
//! `members` and `heartbeat` are the group's membership. `sessions` are the share sessions of members with a node, and
//! `partition` and `acquire` the state of each partition in each group.

mod acquire;
mod heartbeat;
mod members;
mod offsets;
mod partition;
mod sessions;
mod settings;
mod shares;

pub(crate) use acquire::{Acquired, AcquiredRange, Limits};
pub(crate) use heartbeat::ShareHeartbeat;
pub(crate) use members::{ShareMember, ShareMembers};
pub(crate) use partition::{Acknowledgement, check_fields};
pub(crate) use sessions::{FINAL_EPOCH, INITIAL_EPOCH, SessionKey, TopicPartition};
pub(crate) use settings::{ShareSettings, check_config};
pub(crate) use shares::Shares;
