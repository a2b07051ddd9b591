//! Embedded Kafka broker for tests, which keeps its data in memory and has several virtual nodes.
#![forbid(unsafe_code)]

mod api;
mod broker;
mod clock;
mod collections;
mod connection;
mod fault;
mod history;
mod log;
mod node;
mod options;
mod security;
mod socket;
mod state;

pub use broker::Broker;
pub use fault::{Fault, RequestInfo};
#[cfg(feature = "simulation")]
pub use history::{Event, LockEnd, ShareChange, take_history};
pub use options::{BrokerOptions, GroupOptions, ShareOptions, TelemetryOptions, TransactionOptions};
pub use samsarrow_wire::compression::Codec;
pub use samsarrow_wire::releases::Release;
pub use security::{
    Alteration, ClientAuth, Connections, Identity, LoginAnswer, Logins, Mechanism, Protocol, Replacement,
    SecurityOptions, Users,
};
pub use state::telemetry::TelemetryPush;
