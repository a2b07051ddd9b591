//! Counters of the memory that Java can reach, to detect leaks.

use std::sync::atomic::{AtomicU64, Ordering};

static CREATED: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Counts the memory of a batch, or of a buffer for rows, until it is dropped.
#[derive(Debug)]
pub(crate) struct TrackedMemory(u64);

impl TrackedMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        CREATED.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
        Self(bytes as u64)
    }
}

impl Drop for TrackedMemory {
    fn drop(&mut self) {
        FREED.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Returns the number of batches and buffers created, the number freed, and the bytes of those that are not freed.
pub(crate) fn counts() -> [u64; 3] {
    [&CREATED, &FREED, &BYTES].map(|count| count.load(Ordering::Relaxed))
}
