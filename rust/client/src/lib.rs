//! A Kafka client on tokio: sockets and state.

pub mod admin;
pub mod api_versions;
pub mod backoff;
pub mod cluster;
pub mod config;
pub mod connection;
pub mod consumer;
pub mod error;
pub mod fetch;
pub mod group;
pub mod metadata;
pub mod offsets;
pub mod produce;
pub mod producer;
mod retry;
pub mod types;
