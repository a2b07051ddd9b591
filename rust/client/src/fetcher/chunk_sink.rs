//! Destination of decoded chunks in the queue.

use std::sync::Arc;

use super::queue::Item;
use super::shared_state::Shared;

/// Inserts decoded chunks at the end of the queue or before a slot.
#[derive(Debug)]
pub(super) struct ChunkSink {
    shared: Arc<Shared>,
    slot: Option<u64>,
}

impl ChunkSink {
    pub(super) fn at_end(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), slot: None }
    }

    /// Returns a sink that inserts chunks before the slot with number `slot`.
    pub(super) fn before_slot(shared: &Arc<Shared>, slot: u64) -> Self {
        Self { shared: Arc::clone(shared), slot: Some(slot) }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn push(&self, item: Item) {
        {
            let mut state = self.shared.lock();
            let index = match self.slot {
                None => (!state.closed).then_some(state.queue.len()),
                Some(number) => state.slot_index(number),
            };
            // After the consumer is closed, the slot no longer exists and the item is dropped.
            let Some(index) = index else { return };
            state.queued += item.bytes();
            state.queue.insert(index, item);
        }
        self.shared.notify_poll();
    }
}
