//! Parser of one record of a batch.
use crate::varint::{read_varint, read_varlong};

/// Minimum size of a record: its length, attributes, two deltas, two lengths and the header count.
pub const MIN_RECORD_LEN: usize = 7;

/// A parsed record with the positions of its key, value and headers in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRecord {
    /// Milliseconds after the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Offset minus the batch's base offset.
    pub offset_delta: i32,
    /// Length of the key, -1 for null.
    pub key_len: i32,
    /// Start of the key; undefined for a null key.
    pub key_start: usize,
    /// Start of the value; undefined for a null value.
    pub value_start: usize,
    /// Length of the value, -1 for null.
    pub value_len: i32,
    /// Number of headers.
    pub header_count: u32,
    /// Start of the first header.
    pub headers_start: usize,
    /// End of the record.
    pub end: usize,
}

impl RawRecord {
    /// Returns the key from `data`, which must be the bytes that were parsed.
    #[inline]
    pub fn key<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        slice(data, self.key_start, self.key_len)
    }

    /// Returns the value from `data`, which must be the bytes that were parsed.
    #[inline]
    pub fn value<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        slice(data, self.value_start, self.value_len)
    }

    /// Returns the headers from `data`, which must be the bytes that were parsed. The order and repeated names are
    /// preserved. For other bytes, the iterator may return fewer headers than [`header_count`](Self::header_count).
    pub fn headers<'a>(&self, data: &'a [u8]) -> Headers<'a> {
        // The range was validated when the record was parsed; it can only be invalid for other bytes.
        Headers { data: data.get(self.headers_start..self.end).unwrap_or_default(), left: self.header_count }
    }
}

#[inline]
fn slice(data: &[u8], start: usize, len: i32) -> Option<&[u8]> {
    usize::try_from(len).ok().and_then(|len| data.get(start..)?.get(..len))
}

pub(crate) type Field<T> = Result<T, &'static str>;

#[inline(never)]
pub(crate) fn read_record(data: &[u8], start: usize) -> Field<RawRecord> {
    let mut position = start;
    let length = varint(data, &mut position, "length")?;
    let Some(end) = usize::try_from(length).ok().map(|len| position + len).filter(|&end| end <= data.len()) else {
        return Err("length");
    };
    // Reads are limited to this record from here on.
    let record = data.get(..end).ok_or("length")?;
    position += 1; // attributes: currently unused
    let timestamp_delta = varlong(record, &mut position, "timestamp delta")?;
    let offset_delta = varint(record, &mut position, "offset delta")?;
    let key_len = varint(record, &mut position, "key length")?;
    let key_start = position;
    position = skip(record, position, key_len, "key length")?;
    let value_len = varint(record, &mut position, "value length")?;
    let value_start = position;
    position = skip(record, position, value_len, "value length")?;
    let header_count = varint(record, &mut position, "header count")?;
    let headers_start = position;
    if header_count != 0 {
        check_headers(record.get(position..).ok_or("header count")?, header_count)?;
    } else if position != end {
        return Err("end (bytes are left over)");
    }
    Ok(RawRecord {
        timestamp_delta,
        offset_delta,
        key_len,
        key_start,
        value_start,
        value_len,
        header_count: header_count as u32,
        headers_start,
        end,
    })
}

/// Returns the position after a field of `len` bytes. A length of -1 means null, which has no bytes.
#[inline(always)]
fn skip(record: &[u8], position: usize, len: i32, what: &'static str) -> Field<usize> {
    if len < 0 {
        return if len == -1 { Ok(position) } else { Err(what) };
    }
    let end = position + len as usize;
    if end <= record.len() { Ok(end) } else { Err(what) }
}

#[inline(always)]
fn varint(data: &[u8], position: &mut usize, what: &'static str) -> Field<i32> {
    let Some(&b0) = data.get(*position) else { return Err(what) };
    if b0 < 0x80 {
        *position += 1;
        return Ok(zigzag(u32::from(b0)));
    }
    if let Some(&b1) = data.get(*position + 1)
        && b1 < 0x80
    {
        *position += 2;
        return Ok(zigzag(u32::from(b0 & 0x7f) | u32::from(b1) << 7));
    }
    let (value, len) = long_varint(data, *position).ok_or(what)?;
    *position += len;
    Ok(value)
}

#[inline(always)]
fn varlong(data: &[u8], position: &mut usize, what: &'static str) -> Field<i64> {
    let Some(&b0) = data.get(*position) else { return Err(what) };
    if b0 < 0x80 {
        *position += 1;
        return Ok(i64::from(zigzag(u32::from(b0))));
    }
    if let Some(&b1) = data.get(*position + 1)
        && b1 < 0x80
    {
        *position += 2;
        return Ok(i64::from(zigzag(u32::from(b0 & 0x7f) | u32::from(b1) << 7)));
    }
    let (value, len) = long_varlong(data, *position).ok_or(what)?;
    *position += len;
    Ok(value)
}

#[inline(always)]
pub(super) fn zigzag(raw: u32) -> i32 {
    (raw >> 1) as i32 ^ -((raw & 1) as i32)
}

#[inline(never)]
fn long_varint(data: &[u8], position: usize) -> Option<(i32, usize)> {
    read_varint(data.get(position..)?).ok()
}

#[inline(never)]
fn long_varlong(data: &[u8], position: usize) -> Option<(i64, usize)> {
    read_varlong(data.get(position..)?).ok()
}

#[inline(never)]
fn check_headers(data: &[u8], count: i32) -> Field<()> {
    // Each header has at least two bytes.
    if usize::try_from(count).map_or(true, |count| count > data.len() / 2) {
        return Err("header count");
    }
    let mut position = 0;
    for _ in 0..count {
        read_header(data, &mut position)?;
    }
    if position == data.len() { Ok(()) } else { Err("header count") }
}

fn read_header<'a>(data: &'a [u8], position: &mut usize) -> Field<Header<'a>> {
    let key_len = varint(data, position, "header key length")?;
    let key = slice(data, *position, key_len).ok_or("header key length")?;
    *position += key.len();
    let value_len = varint(data, position, "header value length")?;
    let value_start = *position;
    *position = skip(data, value_start, value_len, "header value length")?;
    Ok((key, slice(data, value_start, value_len)))
}

/// A header: its key (UTF-8 by convention, not enforced) and its value.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// Iterator over the headers of a record, see [`RawRecord::headers`].
#[derive(Debug, Clone)]
pub struct Headers<'a> {
    data: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        let mut position = 0;
        let header = read_header(self.data, &mut position).ok()?;
        self.data = self.data.get(position..)?;
        Some(header)
    }
}
