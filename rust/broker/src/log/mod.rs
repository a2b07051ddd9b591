//! In-memory log of one partition: segments of whole batches, each with an index.
//!
//! Batches are appended to the last segment. Earlier segments are frozen, so that a fetch returns slices of their bytes
//! without a copy.

pub(crate) mod aborted;
pub(crate) mod batch;
pub(crate) mod legacy;
pub(crate) mod producers;
pub(crate) mod search;
pub(crate) mod validate;

use bytes::{Bytes, BytesMut};
use samsarrow_wire::batch::{Batch, BatchHeader, HEADER_LEN, batches};

/// Maximum size in bytes of a segment with several batches. A segment is frozen if the next batch would exceed it.
const SEGMENT_BYTES: usize = 1 << 20;
const FIRST_ALLOCATION: usize = 16 << 10;

/// Index entry of a batch.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// End offset of the previous batch. It is less than the batch's own base offset if there is a gap, so that a
    /// lookup of an offset in the gap returns this batch.
    base_offset: i64,
    max_timestamp: i64,
    position: usize,
}

#[derive(Debug)]
enum Data {
    Growing(BytesMut),
    Frozen(Bytes),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Data::Growing(data) => data.len(),
            Data::Frozen(data) => data.len(),
        }
    }

    /// Returns a range of bytes. Bytes of a frozen segment are shared, but bytes of the growing segment are copied, so
    /// a consumer at the log end copies each byte once.
    fn slice(&self, from: usize, to: usize) -> Bytes {
        match self {
            Data::Growing(data) => data.get(from..to).map(Bytes::copy_from_slice).unwrap_or_default(),
            Data::Frozen(data) if from <= to && to <= data.len() => data.slice(from..to),
            Data::Frozen(_) => Bytes::new(),
        }
    }
}

#[derive(Debug)]
struct Segment {
    base_offset: i64,
    max_timestamp: i64,
    index: Vec<Entry>,
    data: Data,
}

impl Segment {
    fn new(base_offset: i64, bytes: usize) -> Self {
        Segment {
            base_offset,
            max_timestamp: i64::MIN,
            index: Vec::new(),
            data: Data::Growing(BytesMut::with_capacity(bytes)),
        }
    }

    /// Returns the position in the index of the batch that contains `offset`.
    fn entry(&self, offset: i64) -> usize {
        self.index.partition_point(|entry| entry.base_offset <= offset).saturating_sub(1)
    }

    fn position(&self, entry: usize) -> usize {
        self.index.get(entry).map_or_else(|| self.data.len(), |entry| entry.position)
    }

    /// Returns the end position of the last whole batch that ends at or before `limit`.
    fn whole_end(&self, limit: usize) -> usize {
        if self.data.len() <= limit {
            return self.data.len();
        }
        self.position(self.index.partition_point(|entry| entry.position <= limit).saturating_sub(1))
    }

    /// Returns the byte position of the first batch that begins at or after `offset`.
    fn end_before(&self, offset: i64) -> usize {
        self.position(self.index.partition_point(|entry| entry.base_offset < offset))
    }

    /// Returns the base offset of the first batch at or after a byte position.
    fn offset_at(&self, position: usize) -> Option<i64> {
        let after = self.index.partition_point(|entry| entry.position < position);
        self.index.get(after).map(|entry| entry.base_offset)
    }

    fn batch(&self, entry: usize) -> Bytes {
        self.data.slice(self.position(entry), self.position(entry + 1))
    }

    fn freeze(&mut self) {
        if let Data::Growing(data) = &mut self.data {
            self.data = Data::Frozen(std::mem::take(data).freeze());
            self.index.shrink_to_fit();
        }
    }
}

/// Records read from a log, as slices in offset order.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    pub(crate) chunks: Vec<Bytes>,
    pub(crate) bytes: usize,
    /// Exclusive end of the offset range that was read.
    pub(crate) until: i64,
}

/// Log of one partition, which assigns the offsets of appended batches.
#[derive(Debug, Default)]
pub(crate) struct Log {
    start_offset: i64,
    next_offset: i64,
    segments: Vec<Segment>,
}

impl Log {
    pub(crate) fn start_offset(&self) -> i64 {
        self.start_offset
    }

    /// Returns the offset of the next record. Replication is immediate, so it is both the log end offset and the high
    /// watermark.
    pub(crate) fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Appends a copy of one batch and returns its base offset. `place` writes the base offset and the append time into
    /// the copy.
    pub(crate) fn append(
        &mut self,
        batch: &[u8],
        offsets: i64,
        max_timestamp: i64,
        place: impl FnOnce(&mut [u8], i64),
    ) -> i64 {
        let base_offset = self.next_offset;
        self.push(batch, max_timestamp, |copy| place(copy, base_offset));
        self.next_offset = base_offset.saturating_add(offsets);
        base_offset
    }

    /// Appends encoded batches and messages of any format without changing their offsets, even if they are corrupt.
    /// Calls `seen` for each valid batch.
    pub(crate) fn load(&mut self, data: &Bytes, mut seen: impl FnMut(&Batch)) {
        let mut iter = batches(data.clone());
        let whole: Vec<Batch> = iter.by_ref().map_while(Result::ok).collect();
        let end = iter.position();
        for (number, batch) in whole.iter().enumerate() {
            // Bytes after the last valid batch are stored with that batch.
            let is_last = number + 1 == whole.len();
            let to = if is_last { data.len() } else { batch.position + batch.bytes().len() };
            self.push(data.get(batch.position..to).unwrap_or_default(), batch.header.max_timestamp, |_| ());
            self.next_offset = self.next_offset.max(batch.header.next_offset());
            seen(batch);
        }
        if whole.is_empty() && end < data.len() {
            // Data without a valid batch is stored as one batch at the next offset, so that it can be fetched.
            self.push(data, i64::MIN, |_| ());
            self.next_offset = self.next_offset.saturating_add(1);
        }
    }

    fn push(&mut self, batch: &[u8], max_timestamp: i64, place: impl FnOnce(&mut [u8])) {
        let base_offset = self.next_offset;
        let full = match self.segments.last() {
            // The last segment is frozen if a truncation removed the segments after it.
            None | Some(Segment { data: Data::Frozen(_), .. }) => true,
            Some(last) => last.data.len() > 0 && last.data.len() + batch.len() > SEGMENT_BYTES,
        };
        if full {
            // The first segment starts small, since many partitions receive few records. Later segments are allocated
            // in full.
            let bytes = if self.segments.is_empty() { FIRST_ALLOCATION } else { SEGMENT_BYTES };
            if let Some(last) = self.segments.last_mut() {
                last.freeze();
            }
            self.segments.push(Segment::new(base_offset, bytes.max(batch.len())));
        }
        if let Some(Segment { data: Data::Growing(data), index, max_timestamp: latest, .. }) = self.segments.last_mut()
        {
            let position = data.len();
            data.extend_from_slice(batch);
            if let Some(copy) = data.get_mut(position..) {
                place(copy);
            }
            index.push(Entry { base_offset, max_timestamp, position });
            *latest = (*latest).max(max_timestamp);
        }
    }

    /// Returns the batches of the log up to the first one that cannot be parsed.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Batch> {
        let in_segment = |segment: &Segment| batches(segment.data.slice(0, segment.data.len()));
        self.segments.iter().flat_map(in_segment).map_while(Result::ok)
    }

    /// Advances the log start offset to `offset` and drops segments that end before it. Returns the log start offset.
    pub(crate) fn delete_before(&mut self, offset: i64) -> i64 {
        self.start_offset = self.start_offset.max(offset.min(self.next_offset));
        let next_bases: Vec<i64> = self.segments.iter().skip(1).map(|segment| segment.base_offset).collect();
        let gone = next_bases.iter().take_while(|base| **base <= self.start_offset).count();
        self.segments.drain(..gone);
        self.start_offset
    }

    /// Removes the batch that contains `offset`, and all batches after it.
    pub(crate) fn truncate(&mut self, offset: i64) {
        let Some((at, entry)) = self.find(offset.max(self.start_offset)) else { return };
        self.segments.truncate(at + 1);
        let Some(last) = self.segments.last_mut() else { return };
        let end = last.position(entry);
        if let Some(first_gone) = last.index.get(entry) {
            self.next_offset = first_gone.base_offset;
        }
        last.index.truncate(entry);
        match &mut last.data {
            Data::Growing(data) => data.truncate(end),
            Data::Frozen(data) => data.truncate(end),
        }
        if last.index.is_empty() {
            self.segments.pop();
        } else {
            last.max_timestamp = last.index.iter().map(|entry| entry.max_timestamp).max().unwrap_or(i64::MIN);
        }
    }

    /// Returns the largest leader epoch up to `epoch` that has records in the log, and the end offset of that epoch. If
    /// all records have later epochs, returns `epoch` and the log start offset (KIP-320).
    pub(crate) fn end_of_epoch(&self, epoch: i32) -> (i32, i64) {
        let mut end = self.next_offset;
        for segment in self.segments.iter().rev() {
            for (number, entry) in segment.index.iter().enumerate().rev() {
                let of_batch =
                    BatchHeader::parse(&segment.batch(number)).map_or(-1, |head| head.partition_leader_epoch);
                // Batches of message formats v0 and v1 have no leader epoch.
                if (0..=epoch).contains(&of_batch) {
                    return (of_batch, end);
                }
                end = entry.base_offset;
            }
        }
        (epoch, end)
    }

    /// Returns the index of the segment that contains `offset`, and the index of the batch within the segment.
    fn find(&self, offset: i64) -> Option<(usize, usize)> {
        if offset < self.start_offset || offset >= self.next_offset {
            return None;
        }
        let segment = self.segments.partition_point(|segment| segment.base_offset <= offset).checked_sub(1)?;
        Some((segment, self.segments.get(segment)?.entry(offset)))
    }

    /// Returns the exclusive upper bound of base offsets for a read up to `until`. At the log end there is no bound,
    /// because the offsets of loaded batches may decrease.
    fn bound(&self, until: i64) -> i64 {
        if until >= self.next_offset { i64::MAX } else { until }
    }

    /// Returns the size in bytes of the batches from the one that contains `offset` to the first one at or after
    /// `until`.
    pub(crate) fn bytes_between(&self, offset: i64, until: i64) -> usize {
        let Some((first, entry)) = self.find(offset) else { return 0 };
        let until = self.bound(until);
        let whole: usize = self.segments.iter().skip(first).map(|segment| segment.end_before(until)).sum();
        whole.saturating_sub(self.segments.get(first).map_or(0, |segment| segment.position(entry)))
    }

    /// Reads up to `max_bytes` of whole batches, from the batch that contains `offset` to the first batch at or after
    /// `until`, which is not included. With `at_least_one`, the first batch may exceed `max_bytes`, so that a consumer
    /// always makes progress (KIP-74).
    pub(crate) fn read(&self, offset: i64, until: i64, max_bytes: usize, at_least_one: bool) -> Slices {
        let mut slices = Slices { until: offset, ..Slices::default() };
        let Some((first, entry)) = self.find(offset) else { return slices };
        let until = self.bound(until);
        let mut entry = entry;
        for (number, segment) in self.segments.iter().enumerate().skip(first) {
            let from = segment.position(entry);
            let mut to = segment.whole_end(from.saturating_add(max_bytes - slices.bytes));
            if to <= from && slices.bytes == 0 && at_least_one {
                to = segment.position(entry + 1);
            }
            to = to.min(segment.end_before(until));
            if to <= from {
                break;
            }
            slices.chunks.push(segment.data.slice(from, to));
            slices.bytes += to - from;
            let after = || self.segments.get(number + 1).map_or(self.next_offset, |next| next.base_offset);
            slices.until = segment.offset_at(to).unwrap_or_else(after);
            if to < segment.data.len() || slices.bytes >= max_bytes {
                break;
            }
            entry = 0;
        }
        slices
    }

    /// Reads up to `max_bytes` bytes from the batch that contains `offset`. The last batch may be truncated.
    pub(crate) fn read_cut(&self, offset: i64, max_bytes: usize) -> Slices {
        let mut slices = Slices::default();
        let Some((first, mut entry)) = self.find(offset) else { return slices };
        for segment in self.segments.iter().skip(first) {
            let from = segment.position(entry);
            let to = segment.data.len().min(from.saturating_add(max_bytes - slices.bytes));
            if to <= from {
                break;
            }
            slices.chunks.push(segment.data.slice(from, to));
            slices.bytes += to - from;
            entry = 0;
        }
        slices
    }

    /// Returns the first batch with a record at or after `timestamp`.
    pub(crate) fn batch_at_time(&self, timestamp: i64) -> Option<Bytes> {
        let segment = self.segments.iter().find(|segment| segment.max_timestamp >= timestamp)?;
        let entry = segment.index.iter().position(|entry| entry.max_timestamp >= timestamp)?;
        Some(segment.batch(entry))
    }

    /// Returns the first batch with the maximum timestamp of the log.
    pub(crate) fn batch_at_max_time(&self) -> Option<Bytes> {
        let latest = self.segments.iter().map(|segment| segment.max_timestamp).max()?;
        self.batch_at_time(latest)
    }

    /// Returns the leader epoch under which the record at `offset` was appended.
    pub(crate) fn epoch_of(&self, offset: i64) -> Option<i32> {
        let (segment, entry) = self.find(offset)?;
        let segment = self.segments.get(segment)?;
        let at = segment.position(entry);
        let head = segment.data.slice(at, segment.data.len().min(at + HEADER_LEN));
        BatchHeader::parse(&head).ok().map(|header| header.partition_leader_epoch)
    }
}

#[cfg(test)]
mod tests;
