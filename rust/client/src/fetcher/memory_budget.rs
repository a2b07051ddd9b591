//! Memory budget of the fetch queue: its capacity, the share of each broker, and the tasks that wait for capacity.

use super::state::State;

impl State {
    /// Returns the bytes available to partitions that are not paused. Paused partitions may use at most half of the
    /// memory, so that the others can always be fetched.
    pub(super) fn capacity(&self) -> usize {
        self.memory.saturating_sub(self.paused_buffer.bytes())
    }

    /// Returns the bytes that may still be queued or reserved.
    pub(super) fn available(&self) -> usize {
        self.capacity().saturating_sub(self.queued + self.reserved)
    }

    /// Returns the share of the capacity that one broker may use.
    pub(super) fn broker_share(&self) -> usize {
        (self.capacity() / self.fetching_brokers.max(1)).max(1)
    }

    /// Returns true if `bytes` (at most one broker's share) are available, or if nothing is queued or reserved.
    pub(super) fn has_capacity(&self, bytes: usize) -> bool {
        self.queued + self.reserved == 0 || self.available() >= bytes.min(self.broker_share())
    }

    /// Records that a fetch task waits until `bytes` are available.
    pub(super) fn wait_for_capacity(&mut self, bytes: usize) {
        self.wanted_capacity = Some(self.wanted_capacity.map_or(bytes, |min| min.min(bytes)));
    }

    /// Returns true if a task should be woken: records are pending, or a waiting task can use the available capacity and
    /// then no longer counts as waiting. Every poll frees memory, but waking a task that cannot use it would cost more
    /// than a poll of a few rows.
    pub(super) fn take_ready_waiter(&mut self) -> bool {
        let usable = self.wanted_capacity.is_some_and(|bytes| self.has_capacity(bytes));
        if usable {
            self.wanted_capacity = None;
        }
        usable || self.decode_slots.any_pending()
    }
}
