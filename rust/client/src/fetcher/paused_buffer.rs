//! Rows of paused partitions: kept aside, so that they hold up no others, and given once reading is resumed.

use std::collections::{BTreeMap, VecDeque};

use super::queue::Item;
use crate::types::TopicPartition;

/// Records of paused partitions; each item belongs to one partition.
#[derive(Debug, Default)]
pub(super) struct PausedBuffer {
    items: BTreeMap<TopicPartition, VecDeque<Item>>,
    bytes: usize,
}

impl PausedBuffer {
    /// Of the rows that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps what comes after all that is kept of the partition already.
    pub(super) fn push(&mut self, tp: &TopicPartition, item: Item) {
        self.bytes += item.bytes();
        self.items.entry(tp.clone()).or_default().push_back(item);
    }

    /// Hands over what is kept of a partition, in its order.
    pub(super) fn take(&mut self, tp: &TopicPartition) -> VecDeque<Item> {
        // No rows are withheld of most partitions.
        let items = self.items.remove(tp).unwrap_or_default();
        self.bytes -= items.iter().map(Item::bytes).sum::<usize>();
        items
    }

    /// The offset after what is kept of a partition, and the epoch of the record before that.
    pub(super) fn end(&self, tp: &TopicPartition) -> Option<(i64, i32)> {
        let last = self.items.get(tp)?.iter().rev().find_map(|item| match item {
            Item::Chunk(chunk) => chunk.segments.last(),
            Item::Failed(_) | Item::Error(_) | Item::Slot(_) => None,
        })?;
        Some((last.next_offset, last.epochs.before(last.next_offset)))
    }

    /// Moves the kept records of a partition to another version of its cursor.
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
