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

    /// Parses records that are like the one before `position`: only their deltas and the bytes of keys and values
    /// differ. Where a record starts is then known before the one in front of it was read, which is what the walk
    /// otherwise waits for, and one comparison stands for most of the parsing. Returns how many there are; with 0, which
    /// is right at any time, the records are read one by one.
    #[inline(never)]
    fn repeat(&mut self, data: &[u8], position: usize, size: usize, range: std::ops::Range<usize>) -> usize {
        let Some(template) = data.get(position - size..position).and_then(Template::of) else { return 0 };
        let Some(data) = data.get(position..) else { return 0 };
        let (
            Some(timestamp_deltas),
            Some(offset_deltas),
            Some(key_starts),
            Some(key_lens),
            Some(value_starts),
            Some(value_lens),
            Some(header_counts),
        ) = (
            self.timestamp_delta.get_mut(range.clone()),
            self.offset_delta.get_mut(range.clone()),
            self.key_start.get_mut(range.clone()),
            self.key_len.get_mut(range.clone()),
            self.value_start.get_mut(range.clone()),
            self.value_len.get_mut(range.clone()),
            self.header_count.get_mut(range),
        )
        else {
            return 0;
        };
        let mut same = 0;
        for ((bytes, timestamp_delta), offset_delta) in
            data.chunks_exact(template.size).zip(timestamp_deltas).zip(offset_deltas)
        {
            let Some(deltas) = template.deltas(bytes) else { break };
            *timestamp_delta = i64::from(zigzag(template.timestamp.value(deltas)));
            *offset_delta = zigzag(template.offset.value(deltas));
            same += 1;
        }
        let number = |column: &mut [u32], first: usize| {
            for (index, start) in column.iter_mut().take(same).enumerate() {
                *start = (first + index * template.size) as u32;
            }
        };
        number(key_starts, position + template.key_start);
        number(value_starts, position + template.value_start);
        key_lens.iter_mut().take(same).for_each(|len| *len = template.key_len);
        value_lens.iter_mut().take(same).for_each(|len| *len = template.value_len);
        header_counts.iter_mut().take(same).for_each(|count| *count = 0);
        same
    }
}

/// After this many records of one size in a row, more of them are expected. Fewer would be chance, and cost 15 % where
/// sizes vary.
const ALIKE: u32 = 3;

/// What records of one shape have in common.
struct Template {
    size: usize,
    /// The first bytes, and which of their bits count: all but attributes, deltas and what comes after the key's length.
    head: u128,
    mask: u128,
    /// Where the deltas are in the first bytes, in bits.
    shift: u32,
    timestamp: Varint,
    offset: Varint,
    key_start: usize,
    key_len: i32,
    /// What stands before the value.
    value_len_at: usize,
    value_len_bytes: u32,
    value_len_mask: u32,
    value_start: usize,
    value_len: i32,
}

impl Template {
    /// The shape of a record without headers, with short numbers and a value; `None` if it is none.
    fn of(bytes: &[u8]) -> Option<Template> {
        let head = bytes.first_chunk::<16>()?;
        let mut word = load(bytes, 0)?;
        let length = short_len(&mut word)?;
        let first = length.size + 1; // after the attributes, which are unused so far
        let mut word = load(head, first)?;
        let timestamp = short(&mut word)?;
        let offset = short(&mut word)?;
        let key_at = first + timestamp.size + offset.size;
        let key = if word & 0xff == 1 { None } else { Some(short_len(&mut word)?) };
        let (key_start, key_len) = key.as_ref().map_or((0, -1), |key| (key_at + key.size, key.value as i32));
        let value_len_at = key.as_ref().map_or(key_at + 1, |key| key_at + key.size + key.value as usize);
        let mut word = u64::from(load_short(bytes, value_len_at)?);
        let value = short_len(&mut word)?;
        let value_start = value_len_at + value.size;
        if length.size + length.value as usize != bytes.len() || value_start + value.value as usize + 1 != bytes.len() {
            return None;
        }
        let key_end = key_at + key.map_or(1, |key| key.size);
        let mut mask = [0u8; 16];
        for (at, bits) in mask.iter_mut().enumerate() {
            *bits = match at {
                _ if at < length.size => 0xff,
                _ if at < first => 0,
                // Whether the number goes on.
                _ if at < key_at => 0x80,
                _ if at < key_end => 0xff,
                _ => 0,
            };
        }
        let mask = u128::from_le_bytes(mask);
        let value_len_mask = ((1u64 << (8 * value.size)) - 1) as u32;
        Some(Template {
            size: bytes.len(),
            head: u128::from_le_bytes(*head) & mask,
            mask,
            shift: 8 * first as u32,
            timestamp: Varint::new(0, timestamp.size),
            offset: Varint::new(8 * timestamp.size as u32, offset.size),
            key_start,
            key_len,
            value_len_at,
            value_len_bytes: load_short(bytes, value_len_at)? & value_len_mask,
            value_len_mask,
            value_start,
            value_len: value.value as i32,
        })
    }

    /// The bytes with the deltas, if the record that all of `bytes` are is of this shape.
    #[inline(always)]
    fn deltas(&self, bytes: &[u8]) -> Option<u64> {
        let head = u128::from_le_bytes(*bytes.first_chunk::<16>()?);
        let value_len = load_short(bytes, self.value_len_at)? & self.value_len_mask;
        let headers = *bytes.last()?;
        let same = head & self.mask == self.head && value_len == self.value_len_bytes && headers == 0;
        same.then_some((head >> self.shift) as u64)
    }
}

/// Where a varint of known size lies in a word.
struct Varint {
    shift: u32,
    middle: u32,
    high: u32,
}

impl Varint {
    fn new(shift: u32, size: usize) -> Varint {
        let part = |least, bits| if size >= least { bits } else { 0 };
        Varint { shift, middle: part(2, 0x3f80), high: part(3, 0x1f_c000) }
    }

    #[inline(always)]
    fn value(&self, word: u64) -> u32 {
        let word = (word >> self.shift) as u32;
        word & 0x7f | (word >> 1) & self.middle | (word >> 2) & self.high
    }
}

#[inline(always)]
fn load_short(data: &[u8], position: usize) -> Option<u32> {
    data.get(position..)?.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes))
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

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
