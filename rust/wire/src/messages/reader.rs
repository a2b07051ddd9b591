//! Input buffer of messages, with limits against hostile peers.

use bytes::{Buf, Bytes};

use super::error::{DecodeError, DecodeErrorKind};

/// Maximum decoded size per byte of input. One byte on the wire can become a struct of a hundred bytes, so checking
/// counts against the frame length is not enough. No real message comes near this limit.
const MEMORY_PER_BYTE: usize = 16;
const MIN_MEMORY: usize = 1 << 20;

/// Reader of a frame. The bytes fields that it returns are slices of the frame instead of copies.
#[derive(Debug, Clone)]
pub struct Reader {
    pub(super) bytes: Bytes,
    /// End of `bytes`, as an offset from the start of the frame.
    end: usize,
    limit: usize,
    pub(super) budget: usize,
}

impl Reader {
    /// Creates a reader that starts at the first byte.
    pub fn new(bytes: Bytes) -> Self {
        let end = bytes.len();
        let limit = end.saturating_mul(MEMORY_PER_BYTE).saturating_add(MIN_MEMORY);
        Self { bytes, end, limit, budget: limit }
    }

    /// Returns the number of unread bytes.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Takes all unread bytes.
    pub fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.bytes)
    }

    pub(crate) fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError { message: None, field: "", at: self.end - self.bytes.len(), kind }
    }

    pub(super) fn need(&self, needed: usize) -> Result<(), DecodeError> {
        let left = self.bytes.len();
        if left < needed { Err(self.error(DecodeErrorKind::Truncated { needed, left })) } else { Ok(()) }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        self.need(length)?;
        Ok(self.bytes.split_to(length))
    }

    /// Splits off the next `length` bytes as a separate reader.
    pub(super) fn part(&mut self, length: usize) -> Result<Reader, DecodeError> {
        let end = self.end - self.bytes.len() + length;
        Ok(Reader { bytes: self.take(length)?, end, limit: self.limit, budget: 0 })
    }

    /// Subtracts `size` bytes from the memory that decoding may still use. Fails if the limit is exceeded.
    pub(super) fn charge(&mut self, size: usize) -> Result<(), DecodeError> {
        match self.budget.checked_sub(size) {
            Some(budget) => {
                self.budget = budget;
                Ok(())
            }
            None => Err(self.error(DecodeErrorKind::Memory { limit: self.limit })),
        }
    }

    /// Returns an error if unread bytes remain.
    pub(crate) fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.error(DecodeErrorKind::Trailing { left })),
        }
    }

    /// Reads an unsigned varint of at most five bytes and 32 bits (KIP-482).
    pub(crate) fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0u32;
        for shift in (0..35).step_by(7) {
            self.need(1)?;
            let byte = self.bytes.get_u8();
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error(DecodeErrorKind::Varint))
    }

    fn i16(&mut self) -> Result<i16, DecodeError> {
        self.need(size_of::<i16>())?;
        Ok(self.bytes.get_i16())
    }

    fn i32(&mut self) -> Result<i32, DecodeError> {
        self.need(size_of::<i32>())?;
        Ok(self.bytes.get_i32())
    }

    /// Reads a length; `None` means null. Compact lengths are encoded as the length plus one.
    pub(super) fn length(&mut self, compact: bool, short: bool) -> Result<Option<usize>, DecodeError> {
        let length = match (compact, short) {
            (true, _) => i64::from(self.unsigned_varint()?) - 1,
            (false, true) => i64::from(self.i16()?),
            (false, false) => i64::from(self.i32()?),
        };
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(self.error(DecodeErrorKind::Length(length))),
        }
    }
}
