//! Integration tests of decoding and encoding. They are a single test binary, because each additional binary would link
//! the whole crate again. Only the tests that count allocations are a separate binary.
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
