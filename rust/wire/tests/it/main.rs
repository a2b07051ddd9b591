//! Integration tests of record batches, codecs and segments. One test binary: each additional one would link the whole
//! crate again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod batch;
mod codecs;
mod codecs_varint;
mod compression;
mod legacy;
mod primitives;
mod run;
mod segment;
