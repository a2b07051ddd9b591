//! CRC-32C.
