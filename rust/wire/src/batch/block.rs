//! The records of a batch, field by field: the fast way through a batch.
use super::records::{RawRecord, read_record, zigzag};

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
            self.$name.get(..self.len).unwrap_or_default()
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

    /// One record; the last possible one past the end.
    #[inline]
    pub fn record(&self, index: usize) -> RawRecord {
        let at = index.min(BLOCK_LEN - 1);
        let header_count = self.header_count[at];
        let (headers_start, end) = if header_count == 0 {
            // A record without headers ends after its value and their number.
            let end = self.value_start[at] as usize + self.value_len[at].max(0) as usize + 1;
            (end, end)
        } else {
            (self.headers_start[at] as usize, self.headers_end[at] as usize)
        };
        RawRecord {
            timestamp_delta: self.timestamp_delta[at],
            offset_delta: self.offset_delta[at],
            key_start: self.key_start[at] as usize,
            key_len: self.key_len[at],
            value_start: self.value_start[at] as usize,
            value_len: self.value_len[at],
            header_count,
            headers_start,
            end,
        }
    }

    /// Drops the records for which `keep`, given the offset delta, is false.
    pub fn retain(&mut self, mut keep: impl FnMut(i32) -> bool) {
        let mut kept = 0;
        for index in 0..self.len {
            let record = self.record(index);
            if keep(record.offset_delta) {
                self.put(kept, &record);
                kept += 1;
            }
        }
        self.len = kept;
    }

    /// Empties the block, to be filled record by record.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a record, if there is room.
    #[inline]
    pub(super) fn push(&mut self, record: &RawRecord) {
        self.put(self.len, record);
        self.len = (self.len + 1).min(BLOCK_LEN);
    }

    #[inline(always)]
    fn put(&mut self, at: usize, record: &RawRecord) {
        if at >= BLOCK_LEN {
            return;
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
    }

    /// Parses up to `wanted` records, fewer only if the data ends. Returns where they end, or which of them is bad.
    #[inline]
    pub(super) fn fill(&mut self, data: &[u8], start: usize, wanted: usize) -> Result<usize, (usize, &'static str)> {
        let mut position = start;
        let mut len = 0;
        while len < wanted.min(BLOCK_LEN) && position < data.len() {
            let record = match read_plain_record(data, position) {
                Some(record) => record,
                None => read_record(data, position).map_err(|what| (len, what))?,
            };
            position = record.end;
            self.put(len, &record);
            len += 1;
        }
        self.len = len;
        Ok(position)
    }
}

/// The common case: no headers, and every number in one to three bytes. `None` leaves it to [`read_record`], also
/// for whatever is wrong. Reads eight bytes at a time, so not at the very end of the data.
#[inline(always)]
fn read_plain_record(data: &[u8], start: usize) -> Option<RawRecord> {
    let mut word = load(data, start)?;
    let length = short_len(&mut word)?;
    let mut position = start + length.size;
    let end = position + length.value as usize;
    word >>= 8; // attributes: unused so far
    let timestamp_delta = short(&mut word)?;
    position += 1 + timestamp_delta.size;
    let mut word = load(data, position)?;
    let offset_delta = short(&mut word)?;
    position += offset_delta.size;
    let (key_start, key_len);
    if word & 0xff == 1 {
        word >>= 8;
        position += 1;
        (key_start, key_len) = (position, -1);
    } else {
        let len = short_len(&mut word)?;
        key_start = position + len.size;
        key_len = len.value as i32;
        position = key_start + len.value as usize;
        word = load(data, position)?;
    }
    let (value_start, value_len);
    if word & 0xff == 1 {
        (value_start, value_len) = (position + 1, -1);
        position = value_start;
    } else {
        let len = short_len(&mut word)?;
        value_start = position + len.size;
        value_len = len.value as i32;
        position = value_start + len.value as usize;
    }
    // What ends exactly where it should, within the data, is also within its bounds before.
    if position + 1 != end || *data.get(position)? != 0 {
        return None;
    }
    Some(RawRecord {
        timestamp_delta: i64::from(zigzag(timestamp_delta.value)),
        offset_delta: zigzag(offset_delta.value),
        key_len,
        key_start,
        value_start,
        value_len,
        header_count: 0,
        headers_start: end,
        end,
    })
}

#[inline(always)]
fn load(data: &[u8], position: usize) -> Option<u64> {
    data.get(position..)?.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}

struct Short {
    value: u32,
    size: usize,
}

/// Takes an unsigned varint of one to three bytes off `word`, its first byte being the lowest.
#[inline(always)]
fn short(word: &mut u64) -> Option<Short> {
    let w = *word as u32;
    if w & 0x80 == 0 {
        *word >>= 8;
        return Some(Short { value: w & 0x7f, size: 1 });
    }
    if w & 0x8000 == 0 {
        *word >>= 16;
        return Some(Short { value: w & 0x7f | (w >> 1) & 0x3f80, size: 2 });
    }
    if w & 0x80_0000 == 0 {
        *word >>= 24;
        return Some(Short { value: w & 0x7f | (w >> 1) & 0x3f80 | (w >> 2) & 0x1f_c000, size: 3 });
    }
    None
}

/// As [`short`], for a length that is not negative.
#[inline(always)]
fn short_len(word: &mut u64) -> Option<Short> {
    let Short { value, size } = short(word)?;
    if value & 1 != 0 {
        return None;
    }
    Some(Short { value: value >> 1, size })
}
