//! Memory for records that wait to be sent (`buffer.memory`), assigned in FIFO order.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

#[derive(Debug)]
pub(crate) struct BufferMemory {
    total: usize,
    free: Semaphore,
    waiting: AtomicUsize,
}

impl BufferMemory {
    pub(crate) fn new(total: usize) -> Self {
        let total = total.clamp(1, u32::MAX as usize).min(Semaphore::MAX_PERMITS);
        Self { total, free: Semaphore::new(total), waiting: AtomicUsize::new(0) }
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Returns the number of reserved bytes.
    pub(crate) fn used(&self) -> usize {
        self.total.saturating_sub(self.free.available_permits())
    }

    /// Reserves `bytes` if they are available and no caller waits for memory.
    pub(crate) fn try_reserve(&self, bytes: usize) -> bool {
        match u32::try_from(bytes).map(|bytes| self.free.try_acquire_many(bytes)) {
            Ok(Ok(permit)) => {
                permit.forget();
                true
            }
            _ => false,
        }
    }

    /// Waits until `bytes` are available and reserves them. `bytes` must not exceed [`total`](Self::total). Cancel
    /// safe.
    pub(crate) async fn reserve(&self, bytes: usize) {
        let _waiting = WaiterGuard::new(&self.waiting);
        let bytes = u32::try_from(bytes.min(self.total)).unwrap_or(u32::MAX);
        // The semaphore is never closed, so this call cannot fail. A failure would be harmless, because no bytes would
        // be reserved.
        if let Ok(permit) = self.free.acquire_many(bytes).await {
            permit.forget();
        }
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.free.add_permits(bytes);
    }

    /// Returns true if a caller waits for memory. Partly filled batches must then be sent, because otherwise no memory
    /// would ever be released.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }
}

/// Reserved bytes that are released on drop, unless they are transferred to a batch.
#[derive(Debug)]
pub(crate) struct Reserved<'a> {
    memory: &'a BufferMemory,
    bytes: usize,
}

impl<'a> Reserved<'a> {
    /// Takes ownership of bytes that are already reserved.
    pub(crate) fn new(memory: &'a BufferMemory, bytes: usize) -> Self {
        Self { memory, bytes }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Transfers `bytes` to a batch, which releases them later.
    pub(crate) fn transfer(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.memory.release(self.bytes);
        }
    }
}

struct WaiterGuard<'a>(&'a AtomicUsize);

impl<'a> WaiterGuard<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiter_precedes_later_requests() {
        let memory = std::sync::Arc::new(BufferMemory::new(100));
        assert!(memory.try_reserve(80));
        assert!(!memory.try_reserve(30));
        let waiter = {
            let memory = std::sync::Arc::clone(&memory);
            tokio::spawn(async move { memory.reserve(50).await })
        };
        while !memory.has_waiters() {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        memory.release(20);
        assert!(!memory.try_reserve(10), "the bytes freed belong to the waiter");
        memory.release(60);
        waiter.await.unwrap();
        assert!(!memory.has_waiters());
        assert!(memory.try_reserve(50));
        assert!(!memory.try_reserve(1));
    }
}
