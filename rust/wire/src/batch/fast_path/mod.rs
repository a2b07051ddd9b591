//! Column-wise parser of the records of a batch: the fast path of decoding.
mod delta_records;
mod short_record;

use self::delta_records::MIN_EQUAL_SIZES;
use self::short_record::read_short_record;
use super::record::{RawRecord, read_record};

/// Maximum number of records in a [`Block`].
pub const BLOCK_LEN: usize = 256;

/// Columns of parsed records. Records are parsed in one loop and processed in separate loops, which the compiler can
/// vectorize. A block fits into the L1 cache, so reuse it for the next records.
#[derive(Debug)]
pub struct Block {
    len: usize,
    timestamp_delta: [i64; BLOCK_LEN],
    offset_delta: [i32; BLOCK_LEN],
    key_start: [u32; BLOCK_LEN],
    key_len: [i32; BLOCK_LEN],
    value_start: [u32; BLOCK_LEN],
    value_len: [i32; BLOCK_LEN],
    header_count: [u32; BLOCK_LEN],
    /// `headers_start` and `headers_end` are only valid for records with headers.
    headers_start: [u32; BLOCK_LEN],
    headers_end: [u32; BLOCK_LEN],
}

impl Default for Block {
    fn default() -> Self {
        Block::new()
    }
}

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        $($(#[$doc])*
        #[inline]
        pub fn $name(&self) -> &[$type] {
            // `len` never exceeds the capacity, because `put` and `fill` check it.
            self.$name.get(..self.len).unwrap_or(&self.$name)
        })*
    };
}

impl Block {
    /// Creates an empty block.
    pub fn new() -> Block {
        Block {
            len: 0,
            timestamp_delta: [0; BLOCK_LEN],
            offset_delta: [0; BLOCK_LEN],
            key_start: [0; BLOCK_LEN],
            key_len: [0; BLOCK_LEN],
            value_start: [0; BLOCK_LEN],
            value_len: [0; BLOCK_LEN],
            header_count: [0; BLOCK_LEN],
            headers_start: [0; BLOCK_LEN],
            headers_end: [0; BLOCK_LEN],
        }
    }

    /// Number of records.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the block is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fields! {
        /// See [`RawRecord::timestamp_delta`].
        timestamp_delta: i64;
        /// See [`RawRecord::offset_delta`].
        offset_delta: i32;
        /// See [`RawRecord::key_start`].
        key_start: u32;
        /// See [`RawRecord::key_len`].
        key_len: i32;
        /// See [`RawRecord::value_start`].
        value_start: u32;
        /// See [`RawRecord::value_len`].
        value_len: i32;
        /// See [`RawRecord::header_count`].
        header_count: u32;
    }

    /// Returns the record at `index`, or `None` if the block has fewer records.
    #[inline]
    pub fn record(&self, index: usize) -> Option<RawRecord> {
        if index >= self.len {
            return None;
        }
        let header_count = *self.header_count.get(index)?;
        let (value_start, value_len) = (*self.value_start.get(index)? as usize, *self.value_len.get(index)?);
        let (headers_start, end) = if header_count == 0 {
            // A record without headers ends after its value and the header count, which is one byte.
            let end = value_start + value_len.max(0) as usize + 1;
            (end, end)
        } else {
            (*self.headers_start.get(index)? as usize, *self.headers_end.get(index)? as usize)
        };
        Some(RawRecord {
            timestamp_delta: *self.timestamp_delta.get(index)?,
            offset_delta: *self.offset_delta.get(index)?,
            key_start: *self.key_start.get(index)? as usize,
            key_len: *self.key_len.get(index)?,
            value_start,
            value_len,
            header_count,
            headers_start,
            end,
        })
    }

    /// Iterates over the records.
    pub fn records(&self) -> impl Iterator<Item = RawRecord> {
        (0..self.len).map_while(|index| self.record(index))
    }

    /// Calls `keep` with the offset delta of each record, and removes the records for which it returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(i32) -> bool) {
        let mut kept = 0;
        let mut index = 0;
        // Kept records only move forward, so each record is read before it is overwritten.
        while let Some(record) = self.record(index) {
            if keep(record.offset_delta) && self.put(kept, &record) {
                kept += 1;
            }
            index += 1;
        }
        self.len = kept;
    }

    /// Clears the block before records are pushed.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends a record; returns false if the block is full.
    #[inline]
    #[must_use]
    pub(super) fn push(&mut self, record: &RawRecord) -> bool {
        let put = self.put(self.len, record);
        self.len += usize::from(put);
        put
    }

    #[inline(always)]
    fn put(&mut self, at: usize, record: &RawRecord) -> bool {
        if at >= BLOCK_LEN {
            return false;
        }
        self.timestamp_delta[at] = record.timestamp_delta;
        self.offset_delta[at] = record.offset_delta;
        self.key_start[at] = record.key_start as u32;
        self.key_len[at] = record.key_len;
        self.value_start[at] = record.value_start as u32;
        self.value_len[at] = record.value_len;
        self.header_count[at] = record.header_count;
        if record.header_count != 0 {
            self.headers_start[at] = record.headers_start as u32;
            self.headers_end[at] = record.end as u32;
        }
        true
    }

    /// Parses `max_len` records, or fewer if the data or the block ends earlier. Returns the end of the last record. If
    /// a record is malformed, fails with its index and the name of the malformed field.
    #[inline]
    pub(super) fn fill(&mut self, data: &[u8], start: usize, max_len: usize) -> Result<usize, (usize, &'static str)> {
        let mut position = start;
        let mut len = 0;
        let (mut size, mut equal_sizes) = (0, 0);
        let max_len = max_len.min(BLOCK_LEN);
        while len < max_len && position < data.len() {
            let record = match read_short_record(data, position) {
                Some(record) => record,
                None => read_record(data, position).map_err(|what| (len, what))?,
            };
            if !self.put(len, &record) {
                return Err((len, "number in a block"));
            }
            len += 1;
            let size_before = std::mem::replace(&mut size, record.end - position);
            position = record.end;
            equal_sizes = if size == size_before { equal_sizes + 1 } else { 0 };
            if equal_sizes >= MIN_EQUAL_SIZES && record.header_count == 0 {
                equal_sizes = 0;
                let same = self.read_delta_records(data, position, size, len..max_len);
                len += same;
                position += same * size;
            }
        }
        self.len = len;
        Ok(position)
    }
}

#[cfg(test)]
mod tests;
