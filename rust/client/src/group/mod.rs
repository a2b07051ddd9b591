//! Groups: membership by either protocol.
pub mod assignor;
mod classic;
pub(crate) mod commits;
pub(crate) mod consumer_group;
mod consumer_protocol;
mod heart;
pub(crate) mod member;
pub(crate) mod membership;
mod run;
mod seen;
pub mod wanted;

pub use commits::Offsets;
pub use consumer_group::Completed;
pub use membership::{Identity, Rebalance};
