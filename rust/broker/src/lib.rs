//! An embedded Kafka broker: in memory, many partitions, several virtual brokers.
//!
//! A request's way: `node` accepts, `connection` cuts frames, `api` has one file for each API, `state` is what
//! the virtual brokers share, `log` holds the batches of a partition. What holds everywhere:
//!
//! - Batches are kept as they came, compressed or not; only offset, leader epoch and append time are written into them.
//! - What is appended is committed: high watermark, last stable offset and log end are one.
//! - A virtual broker is a port and a node id. Data belong to none of them, so that a stopped node loses nothing; a
//!   leader decides only who may answer for a partition.
//! - A client can end its own connection, nothing else.
#![forbid(unsafe_code)]

mod api;
mod broker;
mod connection;
mod fault;
mod log;
mod node;
mod options;
mod state;
mod sync;

pub use broker::Broker;
pub use fault::{Fault, RequestInfo};
pub use options::BrokerOptions;
