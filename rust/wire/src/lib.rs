//! Kafka wire protocol: encoding and decoding, without I/O.
#![forbid(unsafe_code)]

pub mod batch;
pub mod compression;
pub mod error_code;
#[cfg(feature = "arbitrary")]
pub mod formats;
pub mod frame;
pub mod messages;
pub mod murmur2;
mod piece;
pub mod releases;
pub mod segment;
pub mod varint;

pub use piece::Piece;
pub use samsarrow_crc as crc;
