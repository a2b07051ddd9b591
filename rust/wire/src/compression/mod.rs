//! Codecs of record batches, output capped.
pub mod gzip;
pub mod lz4;
pub mod snappy;
pub mod zstd;
