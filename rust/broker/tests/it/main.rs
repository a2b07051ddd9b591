//! Integration tests of the embedded broker, which send frames of every supported API. The tests form a single binary,
//! because each additional binary would link the whole crate again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod apis;
mod common;
mod faults;
mod groups;
mod groups_admin;
mod groups_consumer;
mod groups_offsets;
mod groups_static;
mod hostile;
mod logins;
mod offsets;
mod old_formats;
mod produce_fetch;
mod quotas;
mod share_groups;
mod tls;
mod transactions;
