//! Zigzag and unsigned varints.
//!
//! Short varints are read without a loop, because nearly all varints in records are short.
use bytes::BufMut;

/// A varint that is truncated or too long for its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("varint is truncated or too long")]
pub struct VarintError;

/// Reads an unsigned varint of 32 bits. Returns the number and its encoded length.
#[inline]
pub fn read_unsigned_varint(input: &[u8]) -> Result<(u32, usize), VarintError> {
    match *input {
        [a, ..] if a < 0x80 => Ok((u32::from(a), 1)),
        [a, b, ..] if b < 0x80 => Ok((u32::from(a & 0x7f) | u32::from(b) << 7, 2)),
        [a, b, c, ..] if c < 0x80 => Ok((u32::from(a & 0x7f) | u32::from(b & 0x7f) << 7 | u32::from(c) << 14, 3)),
        _ => long_u32(input),
    }
}

/// Reads an unsigned varint of 64 bits. Returns the number and its encoded length.
#[inline]
pub fn read_unsigned_varlong(input: &[u8]) -> Result<(u64, usize), VarintError> {
    match *input {
        [a, ..] if a < 0x80 => Ok((u64::from(a), 1)),
        [a, b, ..] if b < 0x80 => Ok((u64::from(a & 0x7f) | u64::from(b) << 7, 2)),
        [a, b, c, ..] if c < 0x80 => Ok((u64::from(a & 0x7f) | u64::from(b & 0x7f) << 7 | u64::from(c) << 14, 3)),
        _ => long_u64(input),
    }
}

/// Reads a zigzag varint of 32 bits. Returns the number and its encoded length.
#[inline]
pub fn read_varint(input: &[u8]) -> Result<(i32, usize), VarintError> {
    let (raw, len) = read_unsigned_varint(input)?;
    Ok(((raw >> 1) as i32 ^ -((raw & 1) as i32), len))
}

/// Reads a zigzag varint of 64 bits. Returns the number and its encoded length.
#[inline]
pub fn read_varlong(input: &[u8]) -> Result<(i64, usize), VarintError> {
    let (raw, len) = read_unsigned_varlong(input)?;
    Ok(((raw >> 1) as i64 ^ -((raw & 1) as i64), len))
}

fn long_u32(input: &[u8]) -> Result<(u32, usize), VarintError> {
    let mut raw = 0u32;
    for (i, &byte) in input.iter().take(5).enumerate() {
        if i == 4 && byte > 0x0f {
            return Err(VarintError);
        }
        raw |= u32::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Ok((raw, i + 1));
        }
    }
    Err(VarintError)
}

fn long_u64(input: &[u8]) -> Result<(u64, usize), VarintError> {
    let mut raw = 0u64;
    for (i, &byte) in input.iter().take(10).enumerate() {
        if i == 9 && byte > 1 {
            return Err(VarintError);
        }
        raw |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Ok((raw, i + 1));
        }
    }
    Err(VarintError)
}

/// Writes an unsigned varint of 32 bits.
#[inline]
pub fn put_unsigned_varint(out: &mut impl BufMut, value: u32) {
    put_unsigned_varlong(out, u64::from(value));
}

/// Writes an unsigned varint of 64 bits.
#[inline]
pub fn put_unsigned_varlong(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// Writes a zigzag varint of 32 bits.
#[inline]
pub fn put_varint(out: &mut impl BufMut, value: i32) {
    put_varlong(out, i64::from(value));
}

/// Writes a zigzag varint of 64 bits.
#[inline]
pub fn put_varlong(out: &mut impl BufMut, value: i64) {
    put_unsigned_varlong(out, (value << 1) as u64 ^ (value >> 63) as u64);
}

/// Returns the length of `value` as an unsigned varint.
#[inline]
pub fn size_of_unsigned_varint(value: u32) -> usize {
    size_of_unsigned_varlong(u64::from(value))
}

/// Returns the length of `value` as an unsigned varint.
#[inline]
pub fn size_of_unsigned_varlong(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Returns the length of `value` as a zigzag varint.
#[inline]
pub fn size_of_varint(value: i32) -> usize {
    size_of_varlong(i64::from(value))
}

/// Returns the length of `value` as a zigzag varint.
#[inline]
pub fn size_of_varlong(value: i64) -> usize {
    size_of_unsigned_varlong((value << 1) as u64 ^ (value >> 63) as u64)
}
