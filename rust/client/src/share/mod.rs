//! Consumers of share groups, which share partitions and acknowledge records one by one (KIP-932).

mod acks;
mod consumer;
mod decode;
mod member;
mod options;
mod rounds;
mod session;
mod shared;
mod state;

pub use consumer::{Acknowledgement, ShareConsumer};
pub use options::{AcknowledgementMode, AcquireMode, ShareOptions};
pub use state::{Completed, Counters, Outcomes};
