//! Client events for the application.

use crate::types::Rebalance;
use crate::types::TopicPartition;

/// Client event.
#[derive(Debug, Clone)]
pub enum Event {
    /// A connection to a broker was opened.
    Connected {
        /// Broker id; bootstrap servers have the ids -1, -2, …
        node: i32,
        /// Host and port.
        address: String,
    },
    /// A connection was closed.
    Disconnected {
        /// Broker id.
        node: i32,
        /// Host and port.
        address: String,
        /// Reason.
        reason: String,
    },
    /// A login or TLS handshake was rejected by the broker or the client.
    AuthenticationFailed {
        /// Broker id.
        node: i32,
        /// Host and port.
        address: String,
        /// Reason.
        reason: String,
    },
    /// A broker throttled the client (KIP-219).
    Throttled {
        /// Broker id.
        node: i32,
        /// Host and port.
        address: String,
        /// Throttle time.
        milliseconds: u64,
    },
    /// The assignment changed.
    Rebalanced(Rebalance),
    /// The position was out of range, or the log was truncated; the position was reset.
    OffsetReset {
        /// Partition.
        partition: TopicPartition,
        /// Offset that was requested.
        offset: i64,
        /// Reason.
        reason: String,
    },
    /// Another client with the same id fenced this one, or the coordinator removed it.
    Fenced {
        /// Error of the broker.
        reason: String,
    },
}

/// Observer of events. Called on threads of the runtime: it must not block.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// Handles an event.
    fn notify(&self, event: Event);
}
