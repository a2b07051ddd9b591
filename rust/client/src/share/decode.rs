//! Decoding of acquired records into batches with their delivery counts.

use std::sync::Arc;

use arrow_array::{Array, Int16Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::{Buf, Bytes};
use samsarrow_arrow::decode::{DecodeCause, DecodeError, DecodeOptions, Decoder, Window};
use samsarrow_wire::batch::{BatchErrorKind, batches};
use samsarrow_wire::messages::share_fetch::AcquiredRecords;

use super::acks::RowState;
use super::rows::consecutive;
use crate::error::{Error, Result};
use crate::fetcher::decode_error;
use crate::types::TopicPartition;

/// Maximum size of the decompressed records in one batch of rows.
pub(super) const CHUNK_BYTES: usize = 16 << 20;
/// Maximum number of offsets that one response may acquire in a partition. Brokers lock at most 4,000 records, and more
/// only where a single batch or a gap in the log is larger.
const MAX_ACQUIRED: i64 = 1 << 22;

/// Returns the schema of batches: the columns of a consumer and `delivery_count`.
pub(super) fn schema_of(options: &DecodeOptions) -> SchemaRef {
    let mut fields: Vec<Arc<Field>> = options.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("delivery_count", DataType::Int16, true)));
    Arc::new(Schema::new(fields))
}

/// Rows of one partition in a chunk.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) tp: TopicPartition,
    pub(super) rows: usize,
}

/// Decoded rows of one or several partitions.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) batch: RecordBatch,
    pub(super) segments: Vec<Segment>,
}

impl Chunk {
    /// Returns the offset of each row.
    pub(super) fn offsets(&self) -> Option<&Int64Array> {
        self.batch.column_by_name("offset").and_then(|column| column.as_any().downcast_ref())
    }
}

/// Records of one partition in a response.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) tp: TopicPartition,
    pub(super) records: Bytes,
    pub(super) acquired: Vec<AcquiredRecords>,
}

/// An acquired range with the state of each offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AcquiredStates {
    pub(super) first: i64,
    pub(super) delivery_count: i16,
    pub(super) states: Vec<RowState>,
}

impl AcquiredStates {
    pub(super) fn last(&self) -> i64 {
        self.first.saturating_add_unsigned(self.states.len() as u64) - 1
    }

    /// Sets the state of the range's offsets from `first` to `last`.
    fn set(&mut self, first: i64, last: i64, state: RowState) {
        let index = |offset: i64| usize::try_from(offset - self.first).unwrap_or_default();
        let (begin, end) = (index(first.max(self.first)), index(last.min(self.last())));
        self.states.get_mut(begin..=end).unwrap_or_default().fill(state);
    }
}

/// Result of decoding the records of one partition.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) tp: TopicPartition,
    pub(super) ranges: Vec<AcquiredStates>,
    /// Errors of batches that cannot be decoded.
    pub(super) errors: Vec<Error>,
}

impl Decoded {
    /// Sets the state of the acquired offsets from `first` to `last`.
    fn mark(&mut self, first: i64, last: i64, state: RowState) {
        for range in self.ranges.iter_mut().filter(|range| range.first <= last && range.last() >= first) {
            range.set(first, last, state);
        }
    }

    /// Marks rows with all offsets from `first` to `last`, up to the first offset outside of the acquired ranges.
    /// Returns their number.
    fn mark_consecutive(&mut self, first: i64, last: i64, counts: &mut Vec<i16>) -> usize {
        let (mut next, begin) = (first, counts.len());
        for range in self.ranges.iter_mut().filter(|range| range.last() >= first) {
            if range.first > next || next > last {
                break;
            }
            let until = range.last().min(last);
            let rows = usize::try_from(until - next + 1).unwrap_or_default();
            counts.resize(counts.len() + rows, range.delivery_count);
            range.set(next, until, RowState::Queued);
            next = until + 1;
        }
        counts.len() - begin
    }

    /// Marks decoded rows, whose offsets ascend, and appends the delivery count of each.
    fn mark_rows(&mut self, offsets: &[i64], counts: &mut Vec<i16>) {
        let mut index = 0;
        let marked = consecutive(offsets).map_or(0, |(first, last)| self.mark_consecutive(first, last, counts));
        for offset in offsets.iter().skip(marked) {
            while self.ranges.get(index).is_some_and(|range| range.last() < *offset) {
                index += 1;
            }
            // Windows contain acquired offsets only, so each row is in a range unless offsets do not ascend.
            let at = self.ranges.get(index).is_some_and(|range| range.first <= *offset);
            let range = if at {
                Some(index)
            } else {
                self.ranges.iter().position(|range| range.first <= *offset && range.last() >= *offset)
            };
            match range.and_then(|index| self.ranges.get_mut(index)) {
                Some(range) => {
                    counts.push(range.delivery_count);
                    let row = usize::try_from(offset - range.first).unwrap_or(usize::MAX);
                    if let Some(state) = range.states.get_mut(row) {
                        *state = RowState::Queued;
                    }
                }
                None => counts.push(0),
            }
        }
    }
}

/// Rows that the decoder holds.
#[derive(Debug)]
struct Undelivered {
    /// Index of the partition in the response.
    partition: usize,
    rows: usize,
    first: i64,
    last: i64,
}

/// Result of decoding a response.
#[derive(Debug, Default)]
pub(super) struct DecodedResponse {
    pub(super) chunks: Vec<Chunk>,
    pub(super) partitions: Vec<Decoded>,
    undelivered: Vec<Undelivered>,
    /// True if columns could not be built. The decoder must then be replaced.
    pub(super) is_broken: bool,
}

impl DecodedResponse {
    /// Returns a response that releases all acquired records, because of an error.
    pub(super) fn released(acquired: Vec<(TopicPartition, Vec<AcquiredRecords>)>, error: &Error) -> Self {
        let mut response = Self::default();
        for (tp, mut acquired) in acquired {
            let errors = if response.partitions.is_empty() { vec![error.clone()] } else { Vec::new() };
            let (ranges, _) = valid_ranges(&tp, &mut acquired);
            let ranges = ranges.iter().map(|range| states_of(range, i64::MIN)).collect();
            response.partitions.push(Decoded { tp, ranges, errors });
        }
        response
    }
}

/// Decodes responses. All batches have the same schema.
#[derive(Debug)]
pub(super) struct ShareDecoder {
    decoder: Decoder,
    schema: SchemaRef,
}

impl ShareDecoder {
    pub(super) fn new(decoder: Decoder, schema: SchemaRef) -> Self {
        Self { decoder, schema }
    }

    /// Decodes the acquired records of all partitions. Invalid records, and acquired ranges that overlap or are larger
    /// than those of any broker, are errors of their partition.
    pub(super) fn decode(&mut self, fetched: Vec<Fetched>) -> DecodedResponse {
        let mut response = DecodedResponse::default();
        for Fetched { tp, records, mut acquired } in fetched {
            let (acquired, error) = valid_ranges(&tp, &mut acquired);
            // An offset without a record is a gap if a later batch was received, so that its record cannot follow.
            let covered = if error.is_none() { covered_until(&records) } else { i64::MIN };
            let ranges = acquired.iter().map(|range| states_of(range, covered)).collect();
            let is_valid = error.is_none();
            response.partitions.push(Decoded { tp, ranges, errors: error.into_iter().collect() });
            let mut data = records;
            for window in windows(&acquired).into_iter().filter(|_| is_valid) {
                self.decode_window(&mut data, window, &mut response);
            }
        }
        self.flush(&mut response);
        response
    }

    /// Decodes the records from `first` to `last` of the last partition in `response`.
    fn decode_window(&mut self, data: &mut Bytes, (first, last): (i64, i64), response: &mut DecodedResponse) {
        let Some(index) = response.partitions.len().checked_sub(1) else { return };
        let mut from = first;
        while from <= last {
            let Some(tp) = response.partitions.get(index).map(|partition| partition.tp.clone()) else { return };
            let window =
                Window { from_offset: from, until_offset: Some(last.saturating_add(1)), max_rows: None, aborted: None };
            let was_empty = self.decoder.rows() == 0;
            let (appended, error) = match self.decoder.append(&tp.topic, tp.partition, data.clone(), window) {
                Ok(appended) => (appended, None),
                Err(error) => (error.appended, Some(error)),
            };
            let until = appended.next_offset.saturating_sub(1).min(last);
            response.undelivered.push(Undelivered { partition: index, rows: appended.rows, first: from, last: until });
            data.advance(appended.consumed.min(data.len()));
            from = appended.next_offset.max(from);
            let too_large = appended.full && was_empty && appended.rows == 0 && appended.consumed == 0;
            if appended.full {
                self.flush(response);
            }
            if error.is_none() && !too_large {
                if appended.full {
                    continue;
                }
                return;
            }
            let state = error.as_ref().map_or(RowState::Release, state_of_undecoded);
            let failed = error.as_ref().map_or_else(
                || Error::corrupt(format!("a record batch of {tp} at offset {from} is too large to decode")),
                decode_error,
            );
            let Some(partition) = response.partitions.get_mut(index) else { return };
            partition.errors.push(failed);
            match end_of_first_batch(data) {
                Some((next, size)) => {
                    partition.mark(from, next.saturating_sub(1).min(last), state);
                    // A batch whose end is in the next window is decoded again there, and fails again.
                    if next <= last.saturating_add(1) {
                        data.advance(size.min(data.len()));
                    }
                    from = next.max(from.saturating_add(1));
                }
                // The end of the invalid batch is unknown, so all records from here on return to the group.
                None => {
                    partition.mark(from, i64::MAX, RowState::Release);
                    data.clear();
                    return;
                }
            }
        }
    }

    /// Turns the decoder's rows into a chunk. If Arrow rejects them, they return to the group.
    fn flush(&mut self, response: &mut DecodedResponse) {
        let undelivered = std::mem::take(&mut response.undelivered);
        match self.try_flush(response, &undelivered) {
            Ok(chunk) => response.chunks.extend(chunk),
            Err(error) => {
                response.is_broken = true;
                let mut error = Some(error);
                for part in undelivered {
                    let Some(partition) = response.partitions.get_mut(part.partition) else { continue };
                    partition.mark(part.first, part.last, RowState::Release);
                    partition.errors.extend(error.take());
                }
            }
        }
    }

    fn try_flush(&mut self, response: &mut DecodedResponse, undelivered: &[Undelivered]) -> Result<Option<Chunk>> {
        if self.decoder.rows() == 0 {
            return Ok(None);
        }
        let rejected =
            |error: &dyn std::fmt::Display| Error::corrupt(format!("Arrow rejects the decoded columns: {error}"));
        let batch = self.decoder.finish().map_err(|error| rejected(&error))?;
        let offsets = batch.column_by_name("offset").and_then(|column| column.as_any().downcast_ref::<Int64Array>());
        let offsets = offsets.map(|column| column.values().clone()).unwrap_or_default();
        let (mut counts, mut segments, mut row) = (Vec::with_capacity(batch.num_rows()), Vec::<Segment>::new(), 0);
        for Undelivered { partition: index, rows, .. } in undelivered {
            let (index, rows) = (*index, *rows);
            let Some(partition) = response.partitions.get_mut(index).filter(|_| rows > 0) else { continue };
            partition.mark_rows(offsets.get(row..row + rows).unwrap_or_default(), &mut counts);
            row += rows;
            match segments.last_mut() {
                Some(segment) if segment.tp == partition.tp => segment.rows += rows,
                _ => segments.push(Segment { tp: partition.tp.clone(), rows }),
            }
        }
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(Int16Array::from(counts)));
        let batch = RecordBatch::try_new(self.schema.clone(), columns).map_err(|error| rejected(&error))?;
        Ok(Some(Chunk { batch, segments }))
    }
}

/// Returns a range before its rows are decoded: its offsets below `covered` are gaps, the others are released.
fn states_of(range: &AcquiredRecords, covered: i64) -> AcquiredStates {
    let (first, end) = (range.first_offset, range.last_offset + 1);
    let gaps = usize::try_from(covered.clamp(first, end) - first).unwrap_or_default();
    let mut states = vec![RowState::Gap; gaps];
    states.resize(usize::try_from(end - first).unwrap_or_default(), RowState::Release);
    AcquiredStates { first, delivery_count: range.delivery_count, states }
}

/// Sorts the acquired ranges of a partition. Returns the valid ones, and the error of the first invalid one.
pub(super) fn valid_ranges(
    tp: &TopicPartition,
    acquired: &mut [AcquiredRecords],
) -> (Vec<AcquiredRecords>, Option<Error>) {
    acquired.sort_unstable_by_key(|range| range.first_offset);
    let (mut valid, mut error, mut left, mut end) = (Vec::with_capacity(acquired.len()), None, MAX_ACQUIRED, 0);
    for range in acquired {
        let (first, last) = (range.first_offset, range.last_offset);
        if first < end || last < first || last == i64::MAX {
            let text = format!("{tp}: the broker acquired the offsets {first} to {last} after {end}");
            error.get_or_insert_with(|| Error::corrupt(text));
        } else if last - first >= left {
            let text = format!("{tp}: the broker acquired more than {MAX_ACQUIRED} offsets at once");
            error.get_or_insert_with(|| Error::corrupt(text));
        } else {
            left -= last - first + 1;
            end = last + 1;
            valid.push(range.clone());
        }
    }
    (valid, error)
}

/// Joins adjacent acquired ranges.
fn windows(acquired: &[AcquiredRecords]) -> Vec<(i64, i64)> {
    let mut windows: Vec<(i64, i64)> = Vec::new();
    for range in acquired {
        match windows.last_mut() {
            Some((_, last)) if *last + 1 == range.first_offset => *last = range.last_offset,
            _ => windows.push((range.first_offset, range.last_offset)),
        }
    }
    windows
}

/// Returns the offset after the last complete batch.
fn covered_until(records: &Bytes) -> i64 {
    batches(records.clone())
        .map_while(std::result::Result::ok)
        .map(|batch| batch.header.next_offset())
        .max()
        .unwrap_or(0)
}

/// Returns the offset after the first batch, and its size in bytes.
fn end_of_first_batch(data: &Bytes) -> Option<(i64, usize)> {
    let batch = batches(data.clone()).next()?.ok()?;
    Some((batch.header.next_offset(), batch.bytes().len()))
}

/// Returns the acknowledgement of records that cannot be decoded: corrupt records are rejected, and records that only
/// cannot be decompressed here are released, as in Java's client.
fn state_of_undecoded(error: &DecodeError) -> RowState {
    let corrupt = |kind: &BatchErrorKind| !matches!(kind, BatchErrorKind::Decompress(_) | BatchErrorKind::Codec { .. });
    match &error.cause {
        DecodeCause::Batch(batch) if corrupt(&batch.kind) => RowState::Reject,
        _ => RowState::Release,
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
