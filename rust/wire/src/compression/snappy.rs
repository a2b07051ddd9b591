//! The snappy codec.
