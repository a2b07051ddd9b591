//! The lz4 codec.
