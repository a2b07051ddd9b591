//! Reader of the bytes of one value.

use samsarrow_wire::ShortBytes;

use crate::error::{Fault, Reason, Step};

/// Maximum number of bytes that all items of one value may occupy in the columns, in addition to [`PER_BYTE`] for each
/// byte of the value. There must be a limit, because a few bytes can encode 2⁶² nulls.
pub(crate) const MAX_GROWTH: u64 = 64 << 20;
/// Number of bytes that each byte of a value may occupy in the columns. Valid values need far less.
const PER_BYTE: u64 = 64;
/// Maximum number of items with an empty encoding in one value.
pub(crate) const MAX_EMPTY_ITEMS: u64 = 1 << 20;

/// Remaining bytes of a value. Functions take and return the reader by value, so that it stays in registers. This
/// halves the time for skipping a short field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    #[inline]
    pub(crate) fn new(value: &'a [u8]) -> Self {
        ByteReader { rest: value }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    /// Returns the remaining bytes.
    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads a 64-bit varint.
    #[inline(always)]
    pub(crate) fn varint(&mut self) -> Step<u64> {
        Ok(match *self.rest {
            [a, ref rest @ ..] if a < 0x80 => {
                self.rest = rest;
                u64::from(a)
            }
            [a, b, ref rest @ ..] if b < 0x80 => {
                self.rest = rest;
                u64::from(a & 0x7f) | u64::from(b) << 7
            }
            _ => {
                let (raw, len) = varint(self.rest)?;
                self.rest = self.rest.get(len..).unwrap_or_default();
                raw
            }
        })
    }

    /// Reads a 64-bit zig-zag varint.
    #[inline(always)]
    pub(crate) fn long(&mut self) -> Step<i64> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// Reads a 32-bit zig-zag varint.
    #[inline(always)]
    pub(crate) fn int(&mut self) -> Step<i32> {
        i32::try_from(self.long()?).map_err(|_| Reason::Overlong.into())
    }

    /// Skips a varint.
    #[inline(always)]
    pub(crate) fn skip_varint(&mut self) -> Step {
        let len = match *self.rest {
            [a, ..] if a < 0x80 => 1,
            [_, b, ..] if b < 0x80 => 2,
            [_, _, c, ..] if c < 0x80 => 3,
            _ => varint_len(self.rest)?,
        };
        self.rest = self.rest.get(len..).unwrap_or_default();
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn chunk<const N: usize>(&mut self) -> Step<[u8; N]> {
        let Some((chunk, rest)) = self.rest.split_first_chunk() else { return Err(truncated()) };
        self.rest = rest;
        Ok(*chunk)
    }

    /// Reads `len` bytes.
    #[inline(always)]
    pub(crate) fn bytes(&mut self, len: usize) -> Step<&'a [u8]> {
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else { return Err(truncated()) };
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads bytes with a zig-zag length prefix.
    #[inline(always)]
    pub(crate) fn prefixed(&mut self) -> Step<(&'a [u8], ShortBytes<'a>)> {
        let len = self.long()?;
        self.checked_len(len)
    }

    /// Reads bytes with an unsigned length prefix.
    #[inline(always)]
    pub(crate) fn delimited(&mut self) -> Step<(&'a [u8], ShortBytes<'a>)> {
        let len = self.varint()?;
        self.checked_len(i64::try_from(len).unwrap_or(i64::MAX))
    }

    #[inline(always)]
    fn checked_len(&mut self, len: i64) -> Step<(&'a [u8], ShortBytes<'a>)> {
        let from = self.rest;
        let Some((bytes, rest)) = usize::try_from(len).ok().and_then(|len| from.split_at_checked(len)) else {
            return Err(length_error(len, from.len()).into());
        };
        self.rest = rest;
        let piece = ShortBytes::of(from, 0, bytes.len()).unwrap_or(ShortBytes::from(bytes));
        Ok((bytes, piece))
    }

    /// Reads the start of the next block of an array or map. Returns the number of items, which is 0 at the end, and
    /// the size of the block if the writer wrote it. Each item must have at least `min` bytes.
    pub(crate) fn block(&mut self, min: usize) -> Step<(u64, Option<Block>)> {
        let count = self.long()?;
        let (items, block) = if count < 0 {
            let size = self.long()?;
            if usize::try_from(size).map_or(true, |size| size > self.rest.len()) {
                return Err(length_error(size, self.rest.len()).into());
            }
            (
                count.checked_neg().ok_or(Reason::Count(count, self.rest.len()))?,
                Some(Block { size, left: self.rest.len() }),
            )
        } else {
            (count, None)
        };
        let items = items as u64;
        if min > 0 && items > (self.rest.len() / min) as u64 {
            return Err(Reason::Count(count, self.rest.len()).into());
        }
        Ok((items, block))
    }

    /// Checks that a block had as many bytes as its start announced.
    pub(crate) fn check_block(&self, block: Option<Block>) -> Step {
        match block {
            Some(Block { size, left }) if (left - self.rest.len()) as i64 != size => {
                Err(Reason::BlockSize(size, left - self.rest.len()).into())
            }
            _ => Ok(()),
        }
    }

    /// Skips a block whose size the writer wrote.
    pub(crate) fn skip(&mut self, block: Block) -> Step {
        self.bytes(block.size as usize).map(drop)
    }
}

/// Limits the number of bytes that the items of one value may occupy in the columns, and counts these bytes for all
/// values.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Number of bytes that further items of the current value may occupy in the columns.
    growth: u64,
    empty_items: u64,
    /// Number of bytes that the items of all values occupy in the columns.
    taken: u64,
    /// Value of `taken` before the current value.
    before: u64,
}

impl Budget {
    /// Sets the limits for a value of `len` bytes.
    #[inline]
    pub(crate) fn start(&mut self, len: usize) {
        self.growth = MAX_GROWTH + PER_BYTE * len as u64;
        self.empty_items = MAX_EMPTY_ITEMS;
        self.before = self.taken;
    }

    /// Subtracts the size of the current value, which was removed from the columns.
    pub(crate) fn undo_value(&mut self) {
        self.taken = self.before;
    }

    /// Returns the number of bytes that the items of all values since the last reset occupy in the columns.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Resets the number of bytes after an array was built.
    pub(crate) fn reset(&mut self) {
        (self.taken, self.before) = (0, 0);
    }

    /// Checks and counts `items` more items of the current value. Each has at least `min` encoded bytes, and occupies
    /// `growth` bytes in the columns.
    pub(crate) fn take(&mut self, items: u64, min: usize, growth: u64, left: usize) -> Step {
        let empty = self.empty_items.checked_sub(if min == 0 { items } else { 0 });
        self.empty_items = empty.ok_or(Reason::Count(items as i64, left))?;
        let bytes = items.saturating_mul(growth);
        self.growth = self.growth.checked_sub(bytes).ok_or(Reason::TooLarge(MAX_GROWTH))?;
        self.taken = self.taken.saturating_add(bytes);
        Ok(())
    }
}

/// Reads a varint of at least two bytes, and also returns its length. No loop is needed if eight bytes can be loaded.
#[inline]
fn varint(bytes: &[u8]) -> Step<(u64, usize)> {
    let word = word(bytes);
    let stops = !word & 0x8080_8080_8080_8080;
    let bits = stops.trailing_zeros() + 1;
    if stops == 0 || bits as usize / 8 > bytes.len() {
        return slow_varint(bytes);
    }
    let word = word & (u64::MAX >> (64 - bits)) & 0x7f7f_7f7f_7f7f_7f7f;
    let word = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = (word & 0x0000_3fff_0000_3fff) | (word & 0x3fff_0000_3fff_0000) >> 2;
    Ok(((word & 0x0fff_ffff) | (word & 0x0fff_ffff_0000_0000) >> 4, bits as usize / 8))
}

/// Returns the length of a varint that has at least two bytes.
#[inline]
fn varint_len(bytes: &[u8]) -> Step<usize> {
    let stops = !word(bytes) & 0x8080_8080_8080_8080;
    let len = stops.trailing_zeros() as usize / 8 + 1;
    if stops == 0 || len > bytes.len() { Ok(slow_varint(bytes)?.1) } else { Ok(len) }
}

/// Returns the first eight bytes as an integer, padded with zeros.
#[inline(always)]
pub(crate) fn word(bytes: &[u8]) -> u64 {
    if let Some(chunk) = bytes.first_chunk::<8>() {
        return u64::from_le_bytes(*chunk);
    }
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            u64::from(first) | u64::from(last) << (8 * (bytes.len() - 4))
        }
        _ => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

#[inline(never)]
fn slow_varint(bytes: &[u8]) -> Step<(u64, usize)> {
    let mut raw = 0;
    for (at, &byte) in bytes.iter().take(10).enumerate() {
        if at == 9 && byte > 1 {
            return Err(Reason::Overlong.into());
        }
        raw |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Ok((raw, at + 1));
        }
    }
    Err(Reason::Truncated.into())
}

/// Block whose size the writer wrote.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    size: i64,
    /// Number of remaining bytes at the start of the block.
    left: usize,
}

#[cold]
fn truncated() -> Box<Fault> {
    Reason::Truncated.into()
}

#[cold]
fn length_error(len: i64, left: usize) -> Reason {
    if len < 0 { Reason::Negative(len) } else { Reason::Beyond(len, left) }
}

/// For each `n`, a mask of the high bits of the first `n` bytes.
const HIGH: [u128; 16] = {
    let mut high = [0; 16];
    let mut len = 1;
    while len < 16 {
        high[len] = high[len - 1] << 8 | 0x80;
        len += 1;
    }
    high
};

/// Checks that a text is UTF-8. Most texts are short and ASCII, so up to 32 bytes are checked with two loads and
/// without a loop.
#[inline(always)]
pub(crate) fn utf8(text: &[u8], piece: ShortBytes<'_>) -> Step {
    let high = match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) if text.len() <= 32 => {
            (u128::from_le_bytes(*first) | u128::from_le_bytes(*last)) & (u128::MAX / 0xff * 0x80)
        }
        (None, _) => match (piece.first_sixteen(), HIGH.get(text.len())) {
            (Some(bytes), Some(high)) => u128::from_le_bytes(bytes) & high,
            _ => 1,
        },
        _ => 1,
    };
    if high == 0 || text.is_ascii() || simdutf8::basic::from_utf8(text).is_ok() {
        return Ok(());
    }
    Err(Reason::Utf8.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn zigzag_varint(value: i64) -> Vec<u8> {
        let (mut raw, mut out) = ((value << 1 ^ value >> 63) as u64, Vec::new());
        while raw >= 0x80 {
            out.push(raw as u8 | 0x80);
            raw >>= 7;
        }
        out.push(raw as u8);
        out
    }

    #[test]
    fn reads_varints_of_all_lengths() {
        let powers = (0..63).flat_map(|bit| [1i64 << bit, -1 << bit, (1 << bit) - 1, !(1 << bit)]);
        for value in powers.chain([i64::MIN, i64::MAX, 0x1234_5678_9abc_def0]) {
            let bytes = zigzag_varint(value);
            for trailing in [0, 1, 7, 20] {
                let all = [bytes.clone(), vec![0xff; trailing]].concat();
                let mut input = ByteReader::new(&all);
                assert_eq!((input.long().unwrap(), input.len()), (value, trailing));
            }
            for cut in 0..bytes.len() {
                assert_eq!(ByteReader::new(&bytes[..cut]).long().unwrap_err().reason, Reason::Truncated);
            }
            let int = ByteReader::new(&bytes).int();
            assert_eq!(int.ok(), i32::try_from(value).ok());
        }
    }

    #[test]
    fn rejects_overlong_varints() {
        for bytes in [[0xff; 12], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0]] {
            assert_eq!(ByteReader::new(&bytes).long().unwrap_err().reason, Reason::Overlong);
        }
    }

    #[test]
    fn rejects_blocks_beyond_the_input() {
        let block = |bytes: &[u8], min| ByteReader::new(bytes).block(min).map(|(items, _)| items).map_err(|f| f.reason);
        assert_eq!(block(&[4, 0, 0], 1), Ok(2));
        assert_eq!(block(&[3, 4, 0, 0], 1), Ok(2));
        assert_eq!(block(&[6, 0, 0], 1), Err(Reason::Count(3, 2)));
        assert_eq!(block(&[3, 6, 0, 0], 1), Err(Reason::Beyond(3, 2)));
        assert_eq!(block(&[3, 1, 0, 0], 1), Err(Reason::Negative(-1)));
        assert_eq!(block(&[&zigzag_varint(i64::MIN)[..], &[0]].concat(), 0), Err(Reason::Count(i64::MIN, 0)));
        assert_eq!(block(&zigzag_varint(1 << 62), 0), Ok(1 << 62));
    }

    #[test]
    fn validates_utf8_at_all_lengths() {
        for len in 0..=70 {
            for trailing in [0, 1, 15, 40] {
                let mut all = [vec![b'a'; len], vec![0xff; trailing]].concat();
                let valid = |all: &[u8]| utf8(&all[..len], ShortBytes::of(all, 0, len).unwrap()).is_ok();
                assert!(valid(&all));
                for at in 0..len {
                    all[at] = 0xc3;
                    assert!(!valid(&all), "{at} of {len}");
                    if let Some(next) = all[..len].get_mut(at + 1) {
                        *next = 0xa9;
                        assert!(valid(&all), "{at} of {len}");
                    }
                    all[at..len].fill(b'a');
                }
            }
        }
    }

    #[test]
    fn budget_bounds_growth() {
        let mut budget = Budget::default();
        budget.start(0);
        assert!(budget.take(MAX_EMPTY_ITEMS, 0, 1, 0).is_ok());
        assert!(matches!(budget.take(1, 0, 1, 9).unwrap_err().reason, Reason::Count(1, 9)));
        assert!(matches!(budget.take(u64::MAX, 1, 8, 0).unwrap_err().reason, Reason::TooLarge(_)));
        assert!(matches!(budget.take(MAX_GROWTH, 1, 1, 0).unwrap_err().reason, Reason::TooLarge(_)));
        assert_eq!(budget.taken(), MAX_EMPTY_ITEMS);
        budget.start(0);
        assert!(budget.take(1, 1, 8, 0).is_ok());
        assert_eq!(budget.taken(), MAX_EMPTY_ITEMS + 8, "of all values");
        budget.undo_value();
        assert_eq!(budget.taken(), MAX_EMPTY_ITEMS, "without what was taken back");
    }
}
