//! Record batches to Arrow and back. Tests that count what is allocated are a program of their own.
//! One program: each would link all of the crate once more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod columns;
mod conformance;
mod counts;
mod legacy;
mod roundtrip;
mod runs;
mod segment;
mod support;
mod values;
mod window;
