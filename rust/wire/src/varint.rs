//! Zig-zag and unsigned varints.

/// A varint that is truncated or too long for its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("varint is truncated or too long")]
pub struct VarintError;

/// Reads a zig-zag varint of 32 bits and tells its length.
#[inline]
pub fn read_varint(input: &[u8]) -> Result<(i32, usize), VarintError> {
    let mut raw = 0u32;
    for (i, &byte) in input.iter().take(5).enumerate() {
        if i == 4 && byte > 0x0f {
            return Err(VarintError);
        }
        raw |= u32::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Ok(((raw >> 1) as i32 ^ -((raw & 1) as i32), i + 1));
        }
    }
    Err(VarintError)
}

/// Reads a zig-zag varint of 64 bits and tells its length.
#[inline]
pub fn read_varlong(input: &[u8]) -> Result<(i64, usize), VarintError> {
    let mut raw = 0u64;
    for (i, &byte) in input.iter().take(10).enumerate() {
        if i == 9 && byte > 1 {
            return Err(VarintError);
        }
        raw |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Ok(((raw >> 1) as i64 ^ -((raw & 1) as i64), i + 1));
        }
    }
    Err(VarintError)
}

/// Reads an unsigned varint of 32 bits and tells its length.
#[inline]
pub fn read_unsigned_varint(input: &[u8]) -> Result<(u32, usize), VarintError> {
    read_varint(input).map(|(value, len)| (((value << 1) ^ (value >> 31)) as u32, len))
}

/// Appends `value` as an unsigned varint.
#[inline]
pub fn put_unsigned_varint(out: &mut Vec<u8>, value: u32) {
    put_raw(out, value.into());
}

/// Appends `value` as a zig-zag varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_varlong(out, value.into());
}

/// Appends `value` as a zig-zag varint.
#[inline]
pub fn put_varlong(out: &mut Vec<u8>, value: i64) {
    put_raw(out, (value << 1) as u64 ^ (value >> 63) as u64);
}

#[inline]
fn put_raw(out: &mut Vec<u8>, mut raw: u64) {
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// Bytes that `value` takes as a zig-zag varint.
#[inline]
pub fn size_of_varint(value: i32) -> usize {
    size_of_varlong(i64::from(value))
}

/// Bytes that `value` takes as a zig-zag varint.
#[inline]
pub fn size_of_varlong(value: i64) -> usize {
    let raw = (value << 1) as u64 ^ (value >> 63) as u64;
    (70 - (raw | 1).leading_zeros() as usize) / 7
}

/// Bytes that `value` takes as an unsigned varint.
#[inline]
pub fn size_of_unsigned_varint(value: u32) -> usize {
    (38 - (value | 1).leading_zeros() as usize) / 7
}
