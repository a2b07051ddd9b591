//! Counters of the memory that Java can access, used to detect leaks.

use std::sync::atomic::{AtomicU64, Ordering};

static CREATED: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Counts the memory of a batch or a row buffer until this value is dropped.
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

/// Returns how many batches and row buffers were created, how many were freed, and the size in bytes of those not
/// freed.
pub(crate) fn counts() -> [u64; 3] {
    [&CREATED, &FREED, &BYTES].map(|count| count.load(Ordering::Relaxed))
}
