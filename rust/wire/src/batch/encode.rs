//! Building record batches.
