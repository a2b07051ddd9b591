//! Offsets: listed, committed, fetched, reset.
