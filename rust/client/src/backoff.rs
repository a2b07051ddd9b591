//! Exponential backoff with jitter.
