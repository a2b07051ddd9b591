//! Deferred decoding: pending records get a slot in the queue, are taken when there is capacity, and return to the slot
//! if they are not decoded completely.

use std::collections::VecDeque;

use super::decode_slots::DecodeSlot;
use super::partition_records::PartitionRecords;
use super::queue::{CHUNK_BYTES, Item};
use super::state::State;

impl State {
    /// Adds a slot for these records at the end of the queue.
    pub(super) fn defer_decode(&mut self, parts: VecDeque<PartitionRecords>) {
        self.decode_slots.last_number += 1;
        let number = self.decode_slots.last_number;
        let bytes = parts.iter().map(|part| part.records.len()).sum();
        let ordered = parts.iter().any(|part| part.aborted.is_some());
        self.queued += bytes;
        self.decode_slots.slots.insert(number, DecodeSlot { pending: parts, bytes, ordered });
        self.queue.push_back(Item::Slot(number));
    }

    /// Takes the records of the next slot, if there is capacity to decode them. The first slot in the queue is decoded
    /// even without capacity, because polls wait for it. Drops records of cursors that have moved.
    pub(super) fn next_deferred(&mut self) -> Option<(u64, VecDeque<PartitionRecords>)> {
        let first = match self.queue.front() {
            Some(Item::Slot(number)) => Some(*number),
            _ => None,
        };
        let has_capacity = self.may_decode(0);
        let mut follows_ordered = false;
        let (number, slot) = self.decode_slots.slots.iter_mut().find(|(number, slot)| {
            let is_blocked = slot.pending.is_empty() || (slot.ordered && follows_ordered);
            let decodable = !is_blocked && (has_capacity || first == Some(**number));
            follows_ordered |= slot.ordered;
            decodable
        })?;
        let (number, mut parts) = (*number, std::mem::take(&mut slot.pending));
        self.decode_slots.decoding += 1;
        // Records of a response with aborted transactions are always decoded, because the decoding of later records
        // depends on them.
        parts.retain(|part| {
            part.aborted.is_some() || self.cursors.get(&part.tp).is_some_and(|c| c.version == part.version)
        });
        Some((number, parts))
    }

    /// Returns true if there is capacity for one more chunk. Each running decode task counts as one chunk, except
    /// `others` of them.
    fn may_decode(&self, others: usize) -> bool {
        let decoding = self.decode_slots.decoding.saturating_sub(others);
        self.queued + decoding * CHUNK_BYTES < self.capacity()
    }

    /// Returns true if the task that decodes a slot may decode another chunk.
    pub(super) fn may_continue_decoding(&self) -> bool {
        self.may_decode(1)
    }

    /// Puts the remaining records back into their slot, or removes the slot if none remain.
    pub(super) fn finish_slot(&mut self, number: u64, parts: VecDeque<PartitionRecords>) {
        self.decode_slots.decoding = self.decode_slots.decoding.saturating_sub(1);
        let Some(slot) = self.decode_slots.slots.get_mut(&number) else { return };
        let bytes = parts.iter().map(|part| part.records.len()).sum();
        self.queued = self.queued.saturating_sub(slot.bytes) + bytes;
        if parts.is_empty() {
            self.decode_slots.slots.remove(&number);
            if let Some(index) = self.slot_index(number) {
                self.queue.remove(index);
            }
        } else {
            (slot.pending, slot.bytes) = (parts, bytes);
        }
    }

    /// Returns the index of a slot in the queue; `None` once the consumer is closed.
    pub(super) fn slot_index(&self, number: u64) -> Option<usize> {
        self.queue.iter().position(|item| matches!(item, Item::Slot(slot) if *slot == number))
    }

    /// Returns true if polls wait for the first slot and no task decodes it.
    pub(super) fn is_blocked_on_decode(&self) -> bool {
        match self.queue.front() {
            Some(Item::Slot(number)) => {
                self.decode_slots.slots.get(number).is_some_and(|slot| !slot.pending.is_empty())
            }
            _ => false,
        }
    }
}
