//! What Java was given and what of it is still there: how a leak is seen.

use std::sync::atomic::{AtomicU64, Ordering};

static MADE: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Counts the memory of a batch, or of a block for rows, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Alive(u64);

impl Alive {
    /// This many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        MADE.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
        Self(bytes as u64)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        FREED.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Batches and blocks that were made and freed, and the bytes of the others.
pub(crate) fn counts() -> [u64; 3] {
    [&MADE, &FREED, &BYTES].map(|count| count.load(Ordering::Relaxed))
}
