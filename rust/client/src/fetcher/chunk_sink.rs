//! Destination of decoded chunks.

use std::sync::Arc;

use super::queue::Item;
use super::shared_state::Shared;

/// To the queue's end, or before a place that is kept there.
#[derive(Debug)]
pub(super) struct Outlet {
    shared: Arc<Shared>,
    place: Option<u64>,
}

impl Outlet {
    pub(super) fn end(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), place: None }
    }

    /// Before the place of this number.
    pub(super) fn before(shared: &Arc<Shared>, place: u64) -> Self {
        Self { shared: Arc::clone(shared), place: Some(place) }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn put(&self, item: Item) {
        {
            let mut state = self.shared.lock();
            let at = match self.place {
                None => (!state.closed).then_some(state.queue.len()),
                Some(number) => state.place_of(number),
            };
            // No place any more: the consumer was closed.
            let Some(at) = at else { return };
            state.queued += item.bytes();
            state.queue.insert(at, item);
        }
        self.shared.ring_ready();
    }
}
