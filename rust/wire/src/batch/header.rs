//! The 61-byte header of a record batch.
