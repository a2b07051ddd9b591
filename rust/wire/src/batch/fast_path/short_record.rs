//! Parser of common records that reads a word at a time.
use crate::batch::record::{RawRecord, zigzag};

/// Parses a record of the common form: it has no headers, and each number is a varint of at most three bytes. Returns
/// `None` if the record is malformed or has another form; the caller must then use `read_record`. Also returns `None`
/// close to the end of the data, because the parser reads eight bytes at a time.
#[inline(always)]
pub(super) fn read_short_record(data: &[u8], start: usize) -> Option<RawRecord> {
    let mut word = load(data, start)?;
    let length = short_len(&mut word)?;
    let mut position = start + length.size;
    let end = position + length.value as usize;
    word >>= 8; // attributes: currently unused
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
    // If the record ends exactly at its declared end, and this end is within the data, all positions before it are
    // valid.
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
pub(super) fn load(data: &[u8], position: usize) -> Option<u64> {
    data.get(position..)?.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}

pub(super) struct Short {
    pub(super) value: u32,
    pub(super) size: usize,
}

/// Takes an unsigned varint of one to three bytes from `word`, which is little-endian.
#[inline(always)]
pub(super) fn short(word: &mut u64) -> Option<Short> {
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

/// Takes a length from `word`. A length is a zigzag varint and must not be negative.
#[inline(always)]
pub(super) fn short_len(word: &mut u64) -> Option<Short> {
    let Short { value, size } = short(word)?;
    if value & 1 != 0 {
        return None;
    }
    Some(Short { value: value >> 1, size })
}
