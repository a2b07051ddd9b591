//! The records of a batch, field by field: the fast way through a batch.
mod alike;
mod plain;

use self::alike::ALIKE;
use self::plain::read_plain_record;
use super::record::{RawRecord, read_record};

/// Most records of a [`Block`].
pub const BLOCK_LEN: usize = 256;

/// Some records of a batch, field by field: parsed in one loop, while what becomes of them is left to others, which
/// so have loops of their own that a compiler can turn into vector code. It fits the L1 cache; keep it for reuse.
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
    /// These two only have a meaning where there are headers.
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
            // There are never more records than places: see `put` and `fill`.
            self.$name.get(..self.len).unwrap_or(&self.$name)
        })*
    };
}

impl Block {
    /// An empty block.
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

    /// Whether there is no record.
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

    /// The record of this index; `None` past the last.
    #[inline]
    pub fn record(&self, index: usize) -> Option<RawRecord> {
        if index >= self.len {
            return None;
        }
        let header_count = *self.header_count.get(index)?;
        let (value_start, value_len) = (*self.value_start.get(index)? as usize, *self.value_len.get(index)?);
        let (headers_start, end) = if header_count == 0 {
            // A record without headers ends after its value and their number.
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

    /// All of them, one by one.
    pub fn records(&self) -> impl Iterator<Item = RawRecord> {
        (0..self.len).map_while(|index| self.record(index))
    }

    /// Drops the records for which `keep`, given the offset delta, is false.
    pub fn retain(&mut self, mut keep: impl FnMut(i32) -> bool) {
        let mut kept = 0;
        let mut index = 0;
        // What is kept moves forward, so nothing is overwritten before it was looked at.
        while let Some(record) = self.record(index) {
            if keep(record.offset_delta) && self.put(kept, &record) {
                kept += 1;
            }
            index += 1;
        }
        self.len = kept;
    }

    /// Empties the block, to be filled record by record.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a record; false if there is no room for it.
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

    /// Parses up to `wanted` records, fewer only if the data ends. Returns where they end, or which of them is bad.
    #[inline]
    pub(super) fn fill(&mut self, data: &[u8], start: usize, wanted: usize) -> Result<usize, (usize, &'static str)> {
        let mut position = start;
        let mut len = 0;
        let (mut size, mut alike) = (0, 0);
        let wanted = wanted.min(BLOCK_LEN);
        while len < wanted && position < data.len() {
            let record = match read_plain_record(data, position) {
                Some(record) => record,
                None => read_record(data, position).map_err(|what| (len, what))?,
            };
            if !self.put(len, &record) {
                return Err((len, "number in a block"));
            }
            len += 1;
            let size_before = std::mem::replace(&mut size, record.end - position);
            position = record.end;
            alike = if size == size_before { alike + 1 } else { 0 };
            if alike >= ALIKE && record.header_count == 0 {
                alike = 0;
                let same = self.repeat(data, position, size, len..wanted);
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
