//! An embedded Kafka broker: in memory, many partitions, several virtual brokers.
#![forbid(unsafe_code)]

mod broker;
mod options;

pub use broker::Broker;
pub use options::BrokerOptions;
