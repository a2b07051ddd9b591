//! Memory budget of the fetch queue: capacity, share of each broker, and tasks that wait for capacity.

use super::state::State;

impl State {
    /// Returns the bytes available to partitions that are not paused. Paused ones hold at most half of the memory, so
    /// that the others can always be read.
    pub(super) fn room(&self) -> usize {
        self.memory.saturating_sub(self.withheld.bytes())
    }

    /// Returns the bytes that may still be queued.
    pub(super) fn left(&self) -> usize {
        self.room().saturating_sub(self.queued + self.reserved)
    }

    /// Returns the share of a broker.
    pub(super) fn share(&self) -> usize {
        (self.room() / self.sharers.max(1)).max(1)
    }

    /// Returns true if `bytes`, or the broker's share if that is smaller, may be requested.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.queued + self.reserved == 0 || self.left() >= bytes.min(self.share())
    }

    /// Suspends requests to a broker until `bytes` are available.
    pub(super) fn idles(&mut self, bytes: usize) {
        self.idle = Some(self.idle.map_or(bytes, |least| least.min(bytes)));
    }

    /// Returns true if a task waits for the available capacity. Each poll frees some, and waking tasks that cannot use
    /// it costs more than a poll of few rows.
    pub(super) fn wants_room(&mut self) -> bool {
        let idle = self.idle.is_some_and(|bytes| self.has_room(bytes));
        if idle {
            self.idle = None;
        }
        idle || self.places.any_packed()
    }
}
