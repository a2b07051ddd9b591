//! The one schema of decoded batches.
