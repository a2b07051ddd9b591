//! Kafka client on Tokio: networking, protocol state, producer, consumer and admin.

pub mod admin;
pub mod api_versions;
mod blocking;
mod clock;
pub mod cluster;
mod collections;
pub mod config;
pub mod consumer;
mod defects;
pub mod error;
pub mod fetcher;
pub mod group;
pub mod log;
pub mod metrics;
pub mod net;
pub mod offsets;
pub mod producer;
mod reached;
pub mod retry;
pub mod schema_registry;
mod secret;
pub mod security;
pub mod share;
pub mod types;

#[doc(hidden)]
pub use samsarrow_wire::sync;

/// Parsers of untrusted bytes from logins and keystores, exported for rust/fuzz.
#[cfg(feature = "fuzz")]
pub mod fuzz {
    pub use crate::security::sasl::fuzz::*;
    pub use crate::security::tls::fuzz::*;
}
