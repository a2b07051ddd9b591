//! What is written and read of bytes: record batches, codecs, segments.
//! One program: each would link all of the crate once more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod batch;
mod codecs;
mod codecs_varint;
mod compression;
mod legacy;
mod primitives;
mod run;
mod segment;
