//! Rows of the queue that a poll returns, and the positions of rows that the application passes.

use std::collections::BTreeMap;

use arrow_array::{Int32Array, Int64Array, RecordBatch};
use tokio::time::Instant;

use super::acks::RowState;
use super::decode::{Chunk, Segment};
use super::state::{Item, State};
use crate::error::Result;
use crate::fetcher::{Topics as TopicColumn, column};
use crate::types::TopicPartition;

/// Marks the rows of a chunk as returned. Rows whose locks were lost in the queue are left out. If rows remain behind
/// a lost one, they go back to the queue.
pub(super) fn take_rows(state: &mut State, chunk: Chunk) -> Option<RecordBatch> {
    let now = Instant::now();
    let offsets = chunk.offsets()?.values().clone();
    let (mut row, mut good) = (0, Vec::with_capacity(offsets.len()));
    for Segment { tp, rows } in &chunk.segments {
        let range_of = offsets.get(row..row + rows).unwrap_or_default();
        row += rows;
        let Some(known) = state.rows.get_mut(tp) else {
            good.resize(row, false);
            continue;
        };
        let mut current: Option<(i64, i64, bool)> = None;
        for offset in range_of {
            if current.is_none_or(|(first, last, _)| !(first..=last).contains(offset)) {
                current = known.range(*offset).map(|range| {
                    let is_locked = range.lost.is_none() && range.locked_until > now;
                    (range.first, range.last, is_locked)
                });
            }
            let is_locked = current.is_some_and(|(_, _, is_locked)| is_locked);
            good.push(is_locked && known.state(*offset) == Some(RowState::Queued));
        }
        let returned = range_of.iter().zip(good.get(row - rows..row).unwrap_or_default());
        let states: Vec<_> =
            returned.map(|(offset, good)| (*offset, if *good { RowState::Returned } else { RowState::Done })).collect();
        known.set(states);
    }
    let begin = good.iter().position(|good| *good)?;
    let length = good.iter().skip(begin).take_while(|good| **good).count();
    let rest = begin + length;
    if good.iter().skip(rest).any(|good| *good) {
        put_back(state, &chunk, rest);
    }
    state.counters.records_consumed_total += length as u64;
    Some(chunk.batch.slice(begin, length))
}

/// Puts the rows from `from` on back into the queue.
fn put_back(state: &mut State, chunk: &Chunk, from: usize) {
    let (mut segments, mut row) = (Vec::new(), 0);
    let offsets = chunk.offsets().map(|offsets| offsets.values().clone()).unwrap_or_default();
    for Segment { tp, rows } in &chunk.segments {
        let begin = from.max(row);
        row += rows;
        if begin < row {
            segments.push(Segment { tp: tp.clone(), rows: row - begin });
            if let Some(known) = state.rows.get_mut(tp) {
                let again = offsets.get(begin..row).unwrap_or_default();
                let states: Vec<_> = again
                    .iter()
                    .filter(|offset| known.state(**offset) == Some(RowState::Returned))
                    .map(|offset| (*offset, RowState::Queued))
                    .collect();
                known.set(states);
            }
        }
    }
    let batch = chunk.batch.slice(from, chunk.batch.num_rows() - from);
    state.queue.push_front(Item::Chunk(Chunk { batch, segments }));
}

/// Row number and offset of each row, by partition.
pub(super) type Positions = BTreeMap<TopicPartition, Vec<(usize, i64)>>;

pub(super) fn positions(batches: &[RecordBatch]) -> Result<Positions> {
    let mut positions = Positions::new();
    let mut first_row = 0;
    for batch in batches {
        let partitions: &Int32Array = column(batch, "partition", "int32")?;
        let offsets: &Int64Array = column(batch, "offset", "int64")?;
        let topics = TopicColumn::of(batch)?;
        let mut row = 0;
        while row < batch.num_rows() {
            let partition = partitions.value(row);
            let mut end = row + 1;
            while end < batch.num_rows() && partitions.value(end) == partition && topics.same(row, end) {
                end += 1;
            }
            let rows = positions.entry(TopicPartition::new(topics.name(row)?, partition)).or_default();
            rows.extend((row..end).map(|row| (first_row + row, offsets.value(row))));
            row = end;
        }
        first_row += batch.num_rows();
    }
    Ok(positions)
}
