//! Kafka wire protocol: encoding and decoding, without I/O.
#![forbid(unsafe_code)]

pub mod batch;
pub mod compression;
pub mod error_code;
pub mod frame;
#[cfg(feature = "arbitrary")]
pub mod message_matrix;
pub mod messages;
pub mod murmur2;
pub mod releases;
pub mod segment;
mod short_bytes;
#[doc(hidden)]
pub mod sync;
pub mod varint;

pub use samsarrow_crc as crc;
pub use short_bytes::ShortBytes;
