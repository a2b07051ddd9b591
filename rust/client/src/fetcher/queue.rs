//! Queue items for `poll`: decoded chunks and errors, in order.

use std::sync::Arc;

use arrow_array::{Array, Int64Array, RecordBatch};
use samsarrow_wire::error_code::ErrorCode;

use crate::error::Error;
use crate::types::TopicPartition;

/// Maximum size of the records of a chunk. The decoded columns of a larger chunk would leave the cache before they are
/// used.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// Rows of one partition within a chunk.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) tp: TopicPartition,
    /// Version of the partition's cursor when the rows were fetched.
    pub(super) version: u64,
    pub(super) rows: usize,
    /// Position after these rows are returned. It may be larger than the last offset + 1, because some offsets have no
    /// rows.
    pub(super) next_offset: i64,
    pub(super) epochs: Epochs,
}

/// Leader epochs (-1 if unknown), each with the first offset to which it applies.
#[derive(Debug, Clone)]
pub(super) struct Epochs(Arc<[(i64, i32)]>);

impl Epochs {
    /// Returns the epochs of consecutive batches. `before` is the epoch of the record before the first batch.
    pub(super) fn new(before: i32, batches: &[(i64, i32)]) -> Self {
        Self(std::iter::once((i64::MIN, before)).chain(batches.iter().copied()).collect())
    }

    /// Returns the epoch of the record before `offset` (KIP-320).
    pub(super) fn before(&self, offset: i64) -> i32 {
        self.0.iter().rev().find(|(first, _)| *first < offset).map_or(-1, |(_, epoch)| *epoch)
    }
}

/// One Arrow batch, and the partitions that its rows belong to, in the order of the rows.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) batch: RecordBatch,
    pub(super) segments: Vec<Segment>,
    /// Size of the chunk, which counts towards `queued.max.bytes`.
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) enum Item {
    Chunk(Chunk),
    /// Slot for records that are decoded later, with the slot's number.
    Slot(u64),
    /// Error of some partitions, with the versions of their cursors.
    Failed(Failed),
    /// Error of the whole consumer.
    Error(Error),
}

impl Item {
    /// Returns the size that counts towards `queued.max.bytes`.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Chunk(chunk) => chunk.bytes,
            Self::Slot(_) | Self::Failed(_) | Self::Error(_) => 0,
        }
    }
}

/// Error that prevents partitions from being fetched. Partitions that fail with the same cause share an item.
#[derive(Debug)]
pub(super) struct Failed {
    /// Failed partitions, with the versions of their cursors.
    pub(super) partitions: Vec<(TopicPartition, u64)>,
    pub(super) error: Error,
}

impl Failed {
    /// Returns true if `error` has the same cause, so that both can be raised together. An error that names an offset
    /// concerns only one partition.
    pub(super) fn has_cause_of(&self, error: &Error) -> bool {
        let shared = match error {
            Error::Server { code, .. } => *code != ErrorCode::MESSAGE_TOO_LARGE,
            Error::Timeout { .. } | Error::Connection { .. } | Error::Protocol { .. } => true,
            Error::UnsupportedVersion(_) => true,
            _ => false,
        };
        shared && self.error.name() == error.name()
    }
}

/// Action to take for the rows of one segment at the front of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Deliver,
    /// The rows are kept until their partition is resumed.
    Park,
    /// The rows are dropped, because the cursor has moved.
    Drop,
}

/// Result of [`take`]: at most `limit` rows to return or the rows of one partition to park, and the remainder of the
/// chunk.
pub(super) struct Taken {
    pub(super) rows: RecordBatch,
    pub(super) moved: Vec<Segment>,
    pub(super) parked: Option<(TopicPartition, Chunk)>,
    pub(super) rest: Option<Chunk>,
}

/// Drops invalid segments at the front of a chunk, then takes the consecutive segments with the same fate. Rows to
/// return end before the `until` offset of their partition.
pub(super) fn take(
    chunk: Chunk,
    limit: usize,
    fate: impl Fn(&Segment) -> Fate,
    until: impl Fn(&Segment) -> Option<i64>,
) -> Taken {
    let Chunk { batch, segments, bytes } = chunk;
    let share = |rows: usize| if batch.num_rows() == 0 { 0 } else { bytes * rows / batch.num_rows() };
    let mut skipped = 0;
    let mut remaining_segments = segments.into_iter().peekable();
    while let Some(segment) = remaining_segments.next_if(|s| fate(s) == Fate::Drop) {
        skipped += segment.rows;
    }
    let mut taken = 0;
    let (mut moved, mut parked) = (Vec::new(), None);
    let mut cut = None;
    if let Some(first) = remaining_segments.next_if(|s| fate(s) == Fate::Park) {
        let tp = first.tp.clone();
        let mut segments = vec![first];
        while let Some(segment) = remaining_segments.next_if(|s| s.tp == tp && fate(s) == Fate::Park) {
            segments.push(segment);
        }
        taken = segments.iter().map(|segment| segment.rows).sum();
        parked = Some((tp, Chunk { batch: batch.slice(skipped, taken), segments, bytes: share(taken) }));
    } else {
        while let Some(mut segment) = remaining_segments.next_if(|s| fate(s) == Fate::Deliver) {
            let capacity = limit.saturating_sub(taken);
            if let Some(end) = until(&segment).filter(|end| *end < segment.next_offset) {
                let within = rows_before(&batch, skipped + taken, segment.rows, end);
                if within <= capacity {
                    let mut rest = segment.clone();
                    rest.rows -= within;
                    cut = Some(rest);
                    taken += within;
                    segment.rows = within;
                    segment.next_offset = end;
                    moved.push(segment);
                    break;
                }
            }
            // Like in Java's client, a poll that returns the maximum number of rows does not skip the markers or holes
            // after them.
            let ends_early = segment.rows == capacity
                && capacity > 0
                && offset_at(&batch, skipped + taken + capacity - 1).is_some_and(|last| last + 1 < segment.next_offset);
            if segment.rows > capacity || ends_early {
                let mut rest = segment.clone();
                rest.rows -= capacity;
                if capacity > 0 {
                    segment.rows = capacity;
                    segment.next_offset =
                        offset_at(&batch, skipped + taken + capacity - 1).map_or(segment.next_offset, |o| o + 1);
                    taken += capacity;
                    moved.push(segment);
                }
                cut = Some(rest);
                break;
            }
            taken += segment.rows;
            moved.push(segment);
        }
    }
    let rest: Vec<Segment> = cut.into_iter().chain(remaining_segments).collect();
    let used = skipped + taken;
    let remaining = batch.num_rows().saturating_sub(used);
    let rest = (!rest.is_empty()).then(|| Chunk {
        batch: batch.slice(used, remaining),
        segments: rest,
        bytes: share(remaining),
    });
    let delivered = if parked.is_some() { 0 } else { taken };
    let rows = if delivered == batch.num_rows() { batch } else { batch.slice(skipped, delivered) };
    Taken { rows, moved, parked, rest }
}

fn offsets_of(batch: &RecordBatch) -> Option<&Int64Array> {
    let column: &Arc<dyn Array> = batch.column_by_name("offset")?;
    column.as_any().downcast_ref::<Int64Array>()
}

/// Returns the offset of a row; `None` if the batch has no such row.
pub(super) fn offset_at(batch: &RecordBatch, row: usize) -> Option<i64> {
    let offsets = offsets_of(batch)?;
    (row < offsets.len()).then(|| offsets.value(row))
}

/// Counts the rows with offsets below `end` among the `rows` rows from index `first`. They belong to one partition, so
/// their offsets ascend.
fn rows_before(batch: &RecordBatch, first: usize, rows: usize, end: i64) -> usize {
    // A chunk without an offset column has no rows and only moves a position.
    let offsets = offsets_of(batch).map(|offsets| offsets.values().as_ref()).unwrap_or_default();
    let offsets_of_rows: &[i64] = offsets.get(first..first + rows).unwrap_or_default();
    offsets_of_rows.partition_point(|offset| *offset < end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Field, Schema};

    fn chunk(parts: &[(i32, &[i64], i64)]) -> Chunk {
        let offsets: Vec<i64> = parts.iter().flat_map(|(_, offsets, _)| offsets.iter().copied()).collect();
        let schema = Schema::new(vec![Field::new("offset", DataType::Int64, false)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(offsets))]).unwrap();
        let segments = parts
            .iter()
            .map(|(p, offsets, next_offset)| Segment {
                tp: TopicPartition::new("t", *p),
                version: 0,
                rows: offsets.len(),
                next_offset: *next_offset,
                epochs: Epochs::new(-1, &[]),
            })
            .collect();
        Chunk { batch, segments, bytes: 100 }
    }

    fn offsets(batch: &RecordBatch) -> Vec<i64> {
        (0..batch.num_rows()).filter_map(|row| offset_at(batch, row)).collect()
    }

    /// Offsets of the returned rows, and the new position of each partition that moved.
    type Step = (Vec<i64>, Vec<(i32, i64)>);

    /// Takes rows until the chunk is empty.
    fn drain(mut chunk: Chunk, limit: usize, dropped: &[i32]) -> Vec<Step> {
        let mut steps = Vec::new();
        loop {
            let fate = |s: &Segment| if dropped.contains(&s.tp.partition) { Fate::Drop } else { Fate::Deliver };
            let taken = take(chunk, limit, fate, |_| None);
            let moved = taken.moved.iter().map(|s| (s.tp.partition, s.next_offset)).collect();
            steps.push((offsets(&taken.rows), moved));
            match taken.rest {
                Some(rest) => chunk = rest,
                None => return steps,
            }
        }
    }

    const PARTS: &[(i32, &[i64], i64)] = &[(0, &[1, 2, 5], 9), (1, &[], 30), (2, &[7, 8], 9), (0, &[10], 11)];

    #[test]
    fn takes_a_valid_chunk_whole() {
        let steps = drain(chunk(PARTS), 100, &[]);
        assert_eq!(steps, [(vec![1, 2, 5, 7, 8, 10], vec![(0, 9), (1, 30), (2, 9), (0, 11)])]);
    }

    #[test]
    fn drops_invalid_segments() {
        let rows =
            |dropped: &[i32]| drain(chunk(PARTS), 100, dropped).into_iter().flat_map(|s| s.0).collect::<Vec<_>>();
        assert_eq!(rows(&[0]), [7, 8]);
        assert_eq!(rows(&[2]), [1, 2, 5, 10]);
        assert_eq!(rows(&[0, 1, 2]), [0; 0]);
        let moved: Vec<_> = drain(chunk(PARTS), 100, &[2]).into_iter().flat_map(|s| s.1).collect();
        assert_eq!(moved, [(0, 9), (1, 30), (0, 11)]);
    }

    #[test]
    fn parks_one_partition_at_a_time() {
        let fate = |s: &Segment| match s.tp.partition {
            0 => Fate::Park,
            1 => Fate::Drop,
            _ => Fate::Deliver,
        };
        let mut chunk = Some(chunk(PARTS));
        let (mut parked, mut delivered) = (Vec::new(), Vec::new());
        while let Some(next) = chunk {
            let taken = take(next, 1, fate, |_| None);
            delivered.extend(offsets(&taken.rows));
            parked.extend(taken.parked.map(|(tp, chunk)| (tp.partition, offsets(&chunk.batch), chunk.bytes)));
            chunk = taken.rest;
        }
        assert_eq!(delivered, [7, 8]);
        assert_eq!(parked, [(0, vec![1, 2, 5], 50), (0, vec![10], 16)]);
    }

    #[test]
    fn limit_splits_a_segment() {
        let steps = drain(chunk(PARTS), 2, &[]);
        let rows: Vec<_> = steps.iter().map(|s| s.0.clone()).collect();
        assert_eq!(rows, [vec![1, 2], vec![5, 7], vec![8, 10]]);
        assert_eq!(steps[0].1, [(0, 3)]);
        assert_eq!(steps[1].1, [(0, 9), (1, 30), (2, 8)]);
        assert_eq!(steps[2].1, [(2, 9), (0, 11)]);
        let at_segment_end = drain(chunk(PARTS), 3, &[]);
        assert_eq!(at_segment_end[0], (vec![1, 2, 5], vec![(0, 6)]));
        assert_eq!(at_segment_end[1], (vec![7, 8, 10], vec![(0, 9), (1, 30), (2, 9), (0, 11)]));
    }

    #[test]
    fn stops_at_the_end_of_a_bounded_read() {
        let until = |s: &Segment| (s.tp.partition == 0).then_some(4);
        let taken = take(chunk(PARTS), 100, |_| Fate::Deliver, until);
        assert_eq!(offsets(&taken.rows), [1, 2]);
        assert_eq!(taken.moved.iter().map(|s| (s.rows, s.next_offset)).collect::<Vec<_>>(), [(2, 4)]);
        let rest = taken.rest.unwrap();
        assert_eq!(rest.segments.iter().map(|s| (s.rows, s.next_offset)).collect::<Vec<_>>()[..2], [(1, 9), (0, 30)]);
        assert_eq!(offsets(&rest.batch), [5, 7, 8, 10]);
        // The row limit takes precedence. If the end is within a hole, the position moves to it without a row.
        let taken = take(chunk(PARTS), 1, |_| Fate::Deliver, until);
        assert_eq!((offsets(&taken.rows), taken.moved[0].next_offset), (vec![1], 2));
        let taken = take(chunk(&[(0, &[5], 9)]), 1, |_| Fate::Deliver, until);
        assert_eq!((offsets(&taken.rows), taken.moved[0].next_offset), (vec![], 4));
    }

    #[test]
    fn position_has_the_epoch_of_the_record_before() {
        let epochs = Epochs::new(2, &[(10, 3), (20, 7)]);
        assert_eq!([5, 10, 11, 20, 21, 99].map(|offset| epochs.before(offset)), [2, 2, 3, 3, 7, 7]);
    }
}
