//! Deferred decoding: records are packed into slots of the queue, taken when there is capacity, and put back as far as
//! they remain.

use std::collections::VecDeque;

use super::decode_slots::Place;
use super::partition_records::Part;
use super::queue::{CHUNK_BYTES, Item};
use super::state::State;

impl State {
    /// Keeps the end of the queue for what these parts will be.
    pub(super) fn pack(&mut self, parts: VecDeque<Part>) {
        self.places.next += 1;
        let number = self.places.next;
        let bytes = parts.iter().map(|part| part.records.len()).sum();
        let ordered = parts.iter().any(|part| part.aborted.is_some());
        self.queued += bytes;
        self.places.kept.insert(number, Place { packed: parts, bytes, ordered });
        self.queue.push_back(Item::Kept(number));
    }

    /// What is to be decoded next, if there is room for it: the first place is decoded in any case, as everything else
    /// waits for it. Leaves out what nobody wants any more.
    pub(super) fn unpack(&mut self) -> Option<(u64, VecDeque<Part>)> {
        let first = match self.queue.front() {
            Some(Item::Kept(number)) => Some(*number),
            _ => None,
        };
        let any = self.may_decode(0);
        let mut behind = false;
        let (number, place) = self.places.kept.iter_mut().find(|(number, place)| {
            let waits = place.packed.is_empty() || (place.ordered && behind);
            let may = !waits && (any || first == Some(**number));
            behind |= place.ordered;
            may
        })?;
        let (number, mut parts) = (*number, std::mem::take(&mut place.packed));
        self.places.decoding += 1;
        // A response that lists aborted transactions is decoded in any case: later ones depend on it.
        parts.retain(|part| {
            part.aborted.is_some() || self.cursors.get(&part.tp).is_some_and(|c| c.version == part.version)
        });
        Some((number, parts))
    }

    /// Returns true if one more chunk may be decoded beside `others`.
    fn may_decode(&self, others: usize) -> bool {
        let decoding = self.places.decoding.saturating_sub(others);
        self.queued + decoding * CHUNK_BYTES < self.room()
    }

    /// Returns true if decoding of the current slot may continue.
    pub(super) fn may_go_on(&self) -> bool {
        self.may_decode(1)
    }

    /// Puts the remainder of a slot back for later, or frees the slot.
    pub(super) fn put_back(&mut self, number: u64, parts: VecDeque<Part>) {
        self.places.decoding = self.places.decoding.saturating_sub(1);
        let Some(place) = self.places.kept.get_mut(&number) else { return };
        let bytes = parts.iter().map(|part| part.records.len()).sum();
        self.queued = self.queued.saturating_sub(place.bytes) + bytes;
        if parts.is_empty() {
            self.places.kept.remove(&number);
            if let Some(at) = self.place_of(number) {
                self.queue.remove(at);
            }
        } else {
            (place.packed, place.bytes) = (parts, bytes);
        }
    }

    /// Returns the index of a slot in the queue; `None` once the consumer is closed.
    pub(super) fn place_of(&self, number: u64) -> Option<usize> {
        self.queue.iter().position(|item| matches!(item, Item::Kept(kept) if *kept == number))
    }

    /// Returns true if polls wait for a slot that is not being decoded.
    pub(super) fn is_stuck(&self) -> bool {
        match self.queue.front() {
            Some(Item::Kept(number)) => self.places.kept.get(number).is_some_and(|place| !place.packed.is_empty()),
            _ => false,
        }
    }
}
