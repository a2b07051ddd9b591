//! Client tests against the embedded broker. They are a single program, because each program would link the whole crate
//! again. Tests that measure or limit their process are separate programs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod admin_groups;
mod admin_offsets;
mod admin_security;
mod assignors;
mod conformance;
mod consume;
mod consume_common;
mod consume_failures;
mod consume_memory;
mod core_cluster;
mod core_logins;
mod core_offsets;
mod core_patience;
mod core_recovery;
mod core_topics;
mod delete_topics;
mod groups;
mod produce_columns;
mod produce_common;
mod produce_failures;
mod produce_formats;
mod produce_records;
mod quotas;
mod share;
mod versions;
