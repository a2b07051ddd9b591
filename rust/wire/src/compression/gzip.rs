//! The gzip codec.
