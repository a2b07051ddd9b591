//! An embedded Kafka broker: in memory, many partitions, several virtual brokers.
#![forbid(unsafe_code)]

mod api;
mod broker;
mod connection;
mod fault;
mod log;
mod node;
mod options;
mod profile;
mod state;
mod sync;

pub use broker::Broker;
pub use fault::{Fault, RequestInfo};
pub use options::{BrokerOptions, GroupOptions, TransactionOptions};
pub use samsarrow_wire::releases::Release;
