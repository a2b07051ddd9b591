//! Fetched bytes to record batches.
