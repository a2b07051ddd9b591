//! Rows of the queue that a poll returns, and the positions of rows that the application passes.

use arrow_array::{Int32Array, Int64Array, RecordBatch};
use tokio::time::Instant;

use super::acks::{Acquired, PartitionRows, RowState};
use super::decode::{Chunk, Segment};
use super::state::{Item, State};
use crate::error::Result;
use crate::fetcher::{Topics as TopicColumn, column, equal_at_start};
use crate::types::TopicPartition;

/// Takes rows of a chunk for a poll, which get the state `to`. Rows whose locks were lost in the queue are left out. If
/// rows remain behind a lost one, they go back to the queue.
pub(super) fn take_rows(state: &mut State, chunk: Chunk, to: RowState) -> Option<RecordBatch> {
    let now = Instant::now();
    let offsets = chunk.offsets()?.values().clone();
    if let Some(ranges) = queued_ranges(state, &chunk.segments, &offsets, now) {
        for (tp, first, last) in ranges {
            if let Some(known) = state.rows.get_mut(tp) {
                known.set_range(first, last, to);
            }
        }
        count_rows(state, &chunk.segments, 0, offsets.len(), now);
        return Some(chunk.batch);
    }
    let (mut row, mut good) = (0, Vec::with_capacity(offsets.len()));
    for Segment { tp, rows } in &chunk.segments {
        let of_segment = offsets.get(row..row + rows).unwrap_or_default();
        row += rows;
        match state.rows.get_mut(tp) {
            Some(known) => drop_expired(known, of_segment, now, &mut good),
            None => good.resize(row, false),
        }
    }
    let begin = good.iter().position(|good| *good)?;
    let length = good.iter().skip(begin).take_while(|good| **good).count();
    let rest = begin + length;
    let mut row = 0;
    for Segment { tp, rows } in &chunk.segments {
        let returned = offsets.get(row.max(begin)..(row + rows).min(rest)).unwrap_or_default();
        row += rows;
        if let Some(known) = state.rows.get_mut(tp) {
            known.set(returned.iter().map(|offset| (*offset, to)));
        }
    }
    if good.iter().skip(rest).any(|good| *good) {
        put_back(state, &chunk, rest);
    }
    count_rows(state, &chunk.segments, begin, rest, now);
    Some(chunk.batch.slice(begin, length))
}

/// Counts the rows from `begin` to `end` of segments as returned.
fn count_rows(state: &mut State, segments: &[Segment], begin: usize, end: usize, now: Instant) {
    let (meters, mut row) = (&mut state.meters.read, 0);
    meters.rows_returned(now, end - begin);
    for Segment { tp, rows } in segments {
        let returned = (row + rows).min(end).saturating_sub(row.max(begin));
        row += rows;
        meters.topic_rows_returned(now, &tp.topic, returned);
    }
}

/// Returns the first and the last offset of each segment, if its offsets are consecutive and all are in the queue and
/// locked, as in nearly all chunks. These need no step for each row.
fn queued_ranges<'a>(
    state: &State,
    segments: &'a [Segment],
    offsets: &[i64],
    now: Instant,
) -> Option<Vec<(&'a TopicPartition, i64, i64)>> {
    let mut row = 0;
    let mut range_of = |Segment { tp, rows }: &'a Segment| {
        let (first, last) = consecutive(offsets.get(row..row + rows)?)?;
        row += rows;
        state.rows.get(tp)?.all_queued(first, last, now).then_some((tp, first, last))
    };
    segments.iter().map(&mut range_of).collect()
}

/// Appends for each offset whether its row is in the queue and locked. Rows in the queue whose locks have ended are
/// done.
pub(super) fn drop_expired(known: &mut PartitionRows, offsets: &[i64], now: Instant, good: &mut Vec<bool>) {
    let mut current: Option<&Acquired> = None;
    let mut expired = Vec::new();
    for offset in offsets {
        if current.is_none_or(|range| !range.contains(*offset)) {
            current = known.range(*offset);
        }
        let is_good = current.is_some_and(|range| range.is_queued(*offset, now));
        if !is_good && current.is_some_and(|range| range.state(*offset) == Some(RowState::Queued)) {
            expired.push((*offset, RowState::Done));
        }
        good.push(is_good);
    }
    known.set(expired);
}

/// Puts the rows from `from` on back into the queue.
fn put_back(state: &mut State, chunk: &Chunk, from: usize) {
    let (mut segments, mut row) = (Vec::new(), 0);
    for Segment { tp, rows } in &chunk.segments {
        let begin = from.max(row);
        row += rows;
        if begin < row {
            segments.push(Segment { tp: tp.clone(), rows: row - begin });
        }
    }
    let batch = chunk.batch.slice(from, chunk.batch.num_rows() - from);
    state.queue.push_front(Item::Chunk(Chunk { batch, segments }));
}

/// Consecutive rows of one partition in the batches that the application passes.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) tp: TopicPartition,
    /// Number of the first row.
    pub(super) first_row: usize,
    offsets: Int64Array,
}

impl Run {
    pub(super) fn offsets(&self) -> &[i64] {
        self.offsets.values()
    }

    /// Returns the first and the last offset if the offsets are consecutive, as in most batches of polls.
    pub(super) fn range(&self) -> Option<(i64, i64)> {
        consecutive(self.offsets())
    }
}

/// Returns the first and the last offset if each follows the one before.
pub(super) fn consecutive(offsets: &[i64]) -> Option<(i64, i64)> {
    let (first, last) = (*offsets.first()?, *offsets.last()?);
    // No early exit, so that the comparison is vectorised.
    let follows = |so_far: bool, (index, offset): (usize, &i64)| so_far & (*offset == first.wrapping_add(index as i64));
    (last >= first && offsets.iter().enumerate().fold(true, follows)).then_some((first, last))
}

pub(super) fn positions(batches: &[RecordBatch]) -> Result<Vec<Run>> {
    let (mut runs, mut first_row) = (Vec::new(), 0);
    for batch in batches {
        let partitions: &Int32Array = column(batch, "partition", "int32")?;
        let offsets: &Int64Array = column(batch, "offset", "int64")?;
        let topics = TopicColumn::of(batch)?;
        let mut row = 0;
        while row < batch.num_rows() {
            let of_partition = equal_at_start(partitions.values().get(row..).unwrap_or_default());
            let end = row + topics.run(row, row + of_partition);
            let tp = TopicPartition::new(topics.name(row)?, partitions.value(row));
            runs.push(Run { tp, first_row: first_row + row, offsets: offsets.slice(row, end - row) });
            row = end;
        }
        first_row += batch.num_rows();
    }
    Ok(runs)
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
