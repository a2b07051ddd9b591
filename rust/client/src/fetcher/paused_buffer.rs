//! Rows of paused partitions, which are kept outside the queue until the partitions are resumed.

use std::collections::{BTreeMap, VecDeque};

use super::queue::Item;
use crate::types::TopicPartition;

/// Rows and errors of paused partitions. Each item belongs to one partition.
#[derive(Debug, Default)]
pub(super) struct PausedBuffer {
    items: BTreeMap<TopicPartition, VecDeque<Item>>,
    bytes: usize,
}

impl PausedBuffer {
    /// Returns the size of the buffered rows.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an item after the buffered items of the same partition.
    pub(super) fn push(&mut self, tp: &TopicPartition, item: Item) {
        self.bytes += item.bytes();
        self.items.entry(tp.clone()).or_default().push_back(item);
    }

    /// Removes the items of a partition and returns them in order.
    pub(super) fn take(&mut self, tp: &TopicPartition) -> VecDeque<Item> {
        // Most partitions have no buffered items.
        let items = self.items.remove(tp).unwrap_or_default();
        self.bytes -= items.iter().map(Item::bytes).sum::<usize>();
        items
    }

    /// Returns the offset after the buffered rows of a partition, and the epoch of the record before it.
    pub(super) fn end(&self, tp: &TopicPartition) -> Option<(i64, i32)> {
        let last = self.items.get(tp)?.iter().rev().find_map(|item| match item {
            Item::Chunk(chunk) => chunk.segments.last(),
            Item::Failed(_) | Item::Error(_) | Item::Slot(_) => None,
        })?;
        Some((last.next_offset, last.epochs.before(last.next_offset)))
    }

    /// Changes the cursor version of a partition's items.
    pub(super) fn set_version(&mut self, tp: &TopicPartition, to: u64) {
        for item in self.items.get_mut(tp).into_iter().flatten() {
            match item {
                Item::Chunk(chunk) => chunk.segments.iter_mut().for_each(|segment| segment.version = to),
                Item::Failed(failed) => failed.partitions.iter_mut().for_each(|(_, version)| *version = to),
                Item::Error(_) | Item::Slot(_) => {}
            }
        }
    }
}
