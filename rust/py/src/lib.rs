//! `samsarrow._core`: conversions between Python and the Rust core, nothing else.
