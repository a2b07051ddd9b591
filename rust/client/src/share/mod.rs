//! Consumers of share groups, which share partitions and acknowledge records one by one (KIP-932).

mod acknowledge;
mod acks;
mod consumer;
mod decisions;
mod decode;
mod member;
mod meters;
mod options;
mod requests;
mod rounds;
mod rows;
mod session;
mod shared;
mod state;

pub use consumer::{Commit, ShareConsumer};
pub use decisions::Acknowledgement;
pub use options::{AcknowledgementMode, AcquireMode, ShareOptions};
pub use state::{Completed, Outcomes};
