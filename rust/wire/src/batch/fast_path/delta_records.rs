//! Parser of runs of records that differ only in deltas, keys and values.
use std::ops::Range;

use super::Block;
use super::short_record::{load, short, short_len};
use crate::batch::record::zigzag;

/// Number of consecutive records with equal sizes after which the template parser is tried. With a smaller number, the
/// parser would often be tried for sizes that are equal only by chance, which costs 15 % if sizes vary.
pub(super) const MIN_EQUAL_SIZES: u32 = 3;

impl Block {
    /// Parses the records at `position` that differ from the preceding record only in deltas, keys and values. Since
    /// all these records have the same size, the start of each record is known before the preceding record is parsed,
    /// and one comparison replaces most of the parsing. Returns the number of parsed records. If the number is 0, the
    /// caller uses the general parser.
    #[inline(never)]
    pub(super) fn read_delta_records(
        &mut self,
        data: &[u8],
        position: usize,
        size: usize,
        range: Range<usize>,
    ) -> usize {
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

/// The bytes that all records of one shape have in common.
struct Template {
    size: usize,
    /// The first 16 bytes of a record, and the mask of the bits that are compared. The mask excludes the attributes,
    /// the deltas, and all bytes after the key's length field.
    head: u128,
    mask: u128,
    /// Bit position of the deltas in the first 16 bytes.
    shift: u32,
    timestamp: Varint,
    offset: Varint,
    key_start: usize,
    key_len: i32,
    /// Position and bytes of the value's length field.
    value_len_at: usize,
    value_len_bytes: u32,
    value_len_mask: u32,
    value_start: usize,
    value_len: i32,
}

impl Template {
    /// Returns the template of a record that has a value and no headers, and whose numbers are short varints. Returns
    /// `None` for any other record.
    fn of(bytes: &[u8]) -> Option<Template> {
        let head = bytes.first_chunk::<16>()?;
        let mut word = load(bytes, 0)?;
        let length = short_len(&mut word)?;
        let first = length.size + 1; // after the attributes, which are currently unused
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
                // Compare only the continuation bits of the deltas.
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

    /// Returns the word that contains the deltas, or `None` if `bytes` is not a record of this shape.
    #[inline(always)]
    fn deltas(&self, bytes: &[u8]) -> Option<u64> {
        let head = u128::from_le_bytes(*bytes.first_chunk::<16>()?);
        let value_len = load_short(bytes, self.value_len_at)? & self.value_len_mask;
        let headers = *bytes.last()?;
        let same = head & self.mask == self.head && value_len == self.value_len_bytes && headers == 0;
        same.then_some((head >> self.shift) as u64)
    }
}

/// A varint of known size within a word.
struct Varint {
    shift: u32,
    middle: u32,
    high: u32,
}

impl Varint {
    fn new(shift: u32, size: usize) -> Varint {
        let part = |min_size, bits| if size >= min_size { bits } else { 0 };
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
