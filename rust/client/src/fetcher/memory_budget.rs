//! What may be queued, who may have how much of it, and who waits for it.

use super::state::State;

impl State {
    /// What may be queued, without what paused partitions hold: they have half of the memory at most, so that the others
    /// can always be read.
    pub(super) fn room(&self) -> usize {
        self.memory.saturating_sub(self.withheld.bytes())
    }

    /// What may still be queued.
    pub(super) fn left(&self) -> usize {
        self.room().saturating_sub(self.queued + self.reserved)
    }

    /// What a broker may have of what may be queued.
    pub(super) fn share(&self) -> usize {
        (self.room() / self.sharers.max(1)).max(1)
    }

    /// Whether a broker may be asked for `bytes`, or for its share.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.queued + self.reserved == 0 || self.left() >= bytes.min(self.share())
    }

    /// A broker is asked for nothing until there is room for `bytes`.
    pub(super) fn idles(&mut self, bytes: usize) {
        self.idle = Some(self.idle.map_or(bytes, |least| least.min(bytes)));
    }

    /// Whether anybody waits for the room that there is: each poll makes some, and to wake those who cannot use it costs
    /// more than a poll of few rows.
    pub(super) fn wants_room(&mut self) -> bool {
        let idle = self.idle.is_some_and(|bytes| self.has_room(bytes));
        if idle {
            self.idle = None;
        }
        idle || self.places.any_packed()
    }
}
