//! A Kafka client on tokio: sockets and state.

pub mod admin;
pub mod api_versions;
pub mod auth;
pub mod backoff;
mod clock;
pub mod cluster;
pub mod config;
pub mod connection;
pub mod consumer;
pub mod coordinator;
pub mod credentials;
pub mod error;
pub mod fetch;
pub mod group;
mod http;
pub mod log;
pub mod metadata;
pub mod metrics;
pub mod offsets;
pub mod produce;
pub mod producer;
pub mod registry;
mod retry;
mod secret;
mod security;
mod tls;
pub mod types;
pub mod veil;

/// What reads bytes of others in logins and stores, made open for rust/fuzz.
#[cfg(feature = "fuzz")]
pub mod fuzz {
    pub use crate::auth::fuzz::*;
    pub use crate::tls::fuzz::*;
}
