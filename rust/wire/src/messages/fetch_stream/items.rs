//! Readers of items of a known size. A reader waits until all bytes of the item are available.

use bytes::BytesMut;

use super::FetchParser;
use crate::messages::error::{DecodeError, DecodeErrorKind};
use crate::messages::reader::Reader;
use crate::messages::types::Wire;

impl FetchParser {
    pub(super) fn take(&mut self, input: &mut BytesMut, size: usize) -> Option<Reader> {
        if input.len() < size || self.left < size {
            return None;
        }
        self.left -= size;
        Some(Reader::new(input.split_to(size).freeze()))
    }

    /// Takes `size` bytes. `size` comes from the peer, so it is checked against the rest of the frame.
    pub(super) fn take_checked(&mut self, input: &mut BytesMut, size: usize) -> Result<Option<Reader>, DecodeError> {
        if size > self.left {
            let kind = DecodeErrorKind::Truncated { needed: size, left: self.left };
            return Err(self.error(kind, "FetchResponse"));
        }
        Ok(self.take(input, size))
    }

    pub(super) fn varint(&mut self, input: &mut BytesMut) -> Result<Option<u32>, DecodeError> {
        let size = input.iter().position(|byte| *byte < 0x80).map_or(input.len(), |at| at + 1).min(5);
        if size == 0 || (size < 5 && input.get(size - 1).is_some_and(|last| *last >= 0x80)) {
            return Ok(None);
        }
        let at = self.total - self.left;
        let Some(mut bytes) = self.take(input, size) else { return Ok(None) };
        bytes.unsigned_varint().map(Some).map_err(|e| DecodeError { at: at + e.at, ..e })
    }

    /// Reads a length, which is checked against the rest of the frame; `Some(None)` means null.
    pub(super) fn length(
        &mut self,
        input: &mut BytesMut,
        short: bool,
        field: &'static str,
    ) -> Result<Option<Option<usize>>, DecodeError> {
        let length = if self.cx.flexible {
            match self.varint(input)? {
                Some(length) => i64::from(length) - 1,
                None => return Ok(None),
            }
        } else {
            let Some(mut bytes) = self.take(input, if short { 2 } else { 4 }) else { return Ok(None) };
            if short { i64::from(i16::read(self.cx, &mut bytes)?) } else { i64::from(i32::read(self.cx, &mut bytes)?) }
        };
        match usize::try_from(length) {
            Ok(length) if length <= self.left => Ok(Some(Some(length))),
            Ok(needed) => Err(self.error(DecodeErrorKind::Truncated { needed, left: self.left }, field)),
            Err(_) if length == -1 => Ok(Some(None)),
            Err(_) => Err(self.error(DecodeErrorKind::Length(length), field)),
        }
    }

    /// Reads the number of elements of an array. Since each element has at least one byte, the number is checked
    /// against the rest of the frame.
    pub(super) fn count(
        &mut self,
        input: &mut BytesMut,
        field: &'static str,
    ) -> Result<Option<Option<usize>>, DecodeError> {
        self.length(input, false, field)
    }

    pub(super) fn error(&self, kind: DecodeErrorKind, field: &'static str) -> DecodeError {
        DecodeError { message: None, field, at: self.total - self.left, kind }
    }
}
