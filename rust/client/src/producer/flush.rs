//! Flushing: waits until all queued records have their results.

use super::shared::Shared;

/// Guard of a flush. While a guard exists, batches do not linger.
#[derive(Debug)]
pub(crate) struct FlushGuard<'a>(&'a Shared);

impl<'a> FlushGuard<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        shared.lock().flushing += 1;
        shared.wake.notify_one();
        Self(shared)
    }

    /// Waits until all current batches are delivered or failed.
    pub(crate) async fn wait(&self) {
        let pending = self.0.lock().incomplete();
        for state in pending {
            state.wait_all().await;
        }
    }
}

impl Drop for FlushGuard<'_> {
    fn drop(&mut self) {
        let mut accumulator = self.0.lock();
        accumulator.flushing = accumulator.flushing.saturating_sub(1);
    }
}
