//! Integration tests of decoding and encoding. Tests that count allocations are a separate binary. One test binary:
//! each additional one would link the whole crate again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod columns;
mod conformance;
mod header_only;
mod legacy;
mod roundtrip;
mod runs;
mod segment;
mod support;
mod values;
mod window;
