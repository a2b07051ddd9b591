//! Client events that the application can observe.

use crate::types::Rebalance;
use crate::types::TopicPartition;

/// Client event.
#[derive(Debug, Clone)]
pub enum Event {
    /// A connection to a broker was opened.
    Connected {
        /// Broker id. Bootstrap servers have the ids -1, -2, …
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
    /// The broker or the client rejected a login or a TLS handshake.
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
    /// The position was reset, because it was out of range, the log was truncated, or the topic was recreated.
    OffsetReset {
        /// Partition.
        partition: TopicPartition,
        /// Position before the reset.
        offset: i64,
        /// Reason.
        reason: String,
    },
    /// The client was fenced by another client with the same id, or the coordinator removed it from the group.
    Fenced {
        /// Error that the broker returned.
        reason: String,
    },
}

/// Observer of events. It is called on threads of the runtime, so it must not block.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// Handles an event.
    fn notify(&self, event: Event);
}
