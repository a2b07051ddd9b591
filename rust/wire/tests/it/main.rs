//! Integration tests of record batches, codecs and segments. They form one test binary, because each additional binary
//! would link the whole crate again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod batch;
mod codecs;
mod codecs_varint;
mod compression;
mod legacy;
mod primitives;
mod run;
mod segment;
