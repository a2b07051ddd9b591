//! What happens seldom, and a program may want to know of.

use crate::types::Rebalance;
use crate::types::TopicPartition;

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A connection to a broker was made.
    Connected {
        /// The broker; bootstrap servers have -1, -2, …
        node: i32,
        /// Host and port.
        address: String,
    },
    /// A connection ended.
    Disconnected {
        /// The broker.
        node: i32,
        /// Host and port.
        address: String,
        /// Why.
        reason: String,
    },
    /// A login, or a TLS handshake, was refused, by the broker or by the client.
    AuthenticationFailed {
        /// The broker.
        node: i32,
        /// Host and port.
        address: String,
        /// Why.
        reason: String,
    },
    /// A broker asked to be left alone (KIP-219).
    Throttled {
        /// The broker.
        node: i32,
        /// Host and port.
        address: String,
        /// For how long.
        milliseconds: u64,
    },
    /// Partitions came or went.
    Rebalanced(Rebalance),
    /// The position was not in the log, or the log was truncated: reading goes on elsewhere.
    OffsetReset {
        /// Of which partition.
        partition: TopicPartition,
        /// What was to be read.
        offset: i64,
        /// Why.
        reason: String,
    },
    /// Another has the same name, or the coordinator takes this client for dead.
    Fenced {
        /// What the broker said.
        reason: String,
    },
}

/// Is notified of events, on threads of the core: it must not wait.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// Something happened.
    fn tell(&self, event: Event);
}
