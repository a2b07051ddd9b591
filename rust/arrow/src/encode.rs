//! Arrow columns into record batches.
