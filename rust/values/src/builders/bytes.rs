//! Columns of bytes and text.

use arrow_array::{Array, BinaryArray, StringArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use samsarrow_wire::ShortBytes;

use super::nulls::Nulls;
use crate::error::{Reason, Step};

/// Number of zeroed spare bytes after the data, which allow copies of fixed size for short values.
const SPARE: usize = 1024;

/// A column of variable-length bytes.
#[derive(Debug)]
pub(crate) struct Bytes {
    /// End offset of each row, after an initial 0.
    offsets: Vec<i32>,
    /// Buffer whose first `len` bytes are the values.
    data: Vec<u8>,
    len: usize,
    nulls: Nulls,
    /// Number of rows and bytes in the previous array, from which the size of the next one is estimated.
    before: (usize, usize),
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes { offsets: vec![0], data: Vec::new(), len: 0, nulls: Nulls::default(), before: (0, 0) }
    }
}

impl Bytes {
    #[inline(always)]
    pub(crate) fn push(&mut self, piece: ShortBytes<'_>) -> Step {
        let end = self.len + piece.len();
        let offset = i32::try_from(end).map_err(|_| Reason::Full)?;
        while !self.data.get_mut(self.len..).is_some_and(|room| piece.copy_to(room)) {
            self.data.resize(end + SPARE, 0);
        }
        self.len = end;
        self.offsets.push(offset);
        Ok(())
    }

    /// Appends a value that the function `write` writes. If the function fails, the written bytes do not belong to a
    /// row, and truncating the column removes them.
    #[inline]
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Step) -> Step {
        self.data.truncate(self.len);
        write(&mut self.data)?;
        self.len = self.data.len();
        self.offsets.push(i32::try_from(self.len).map_err(|_| Reason::Full)?);
        Ok(())
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        self.nulls.push(self.offsets.len() - 1);
        // The cast is lossless, because appending a value fails if the length exceeds `i32::MAX`.
        self.offsets.push(self.len as i32);
    }

    /// Returns the values of the last `rows` rows.
    pub(crate) fn last(&self, rows: usize) -> impl Iterator<Item = &[u8]> + Clone {
        let ends = self.offsets.get(self.offsets.len().saturating_sub(rows + 1)..).unwrap_or_default();
        ends.windows(2).filter_map(|ends| match *ends {
            [start, end] => self.data.get(start as usize..end as usize),
            _ => None,
        })
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.len = self.offsets.last().map_or(0, |&end| end as usize);
        self.nulls.truncate(rows);
    }

    pub(crate) fn reserve(&mut self, rows: usize) {
        self.offsets.reserve(rows);
        let (before, bytes) = self.before;
        let bytes = bytes.saturating_mul(rows.min(before)).checked_div(before).unwrap_or(0);
        self.data.reserve(bytes + 2 * SPARE);
    }

    /// Builds the array. Arrow validates the array again, which is faster in array constructors than in a data builder,
    /// because the latter tracks the index of each value.
    pub(crate) fn finish(&mut self, data_type: DataType, _: Vec<ArrayData>) -> Result<ArrayData, ArrowError> {
        let Bytes { offsets, mut data, len, mut nulls, .. } = std::mem::take(self);
        let rows = offsets.len() - 1;
        data.truncate(len);
        self.before = (rows, len);
        let (offsets, data, nulls) = (offsets.into(), Buffer::from_vec(data), nulls.finish(rows));
        Ok(match data_type {
            DataType::Utf8 => StringArray::try_new(OffsetBuffer::new(offsets), data, nulls)?.into_data(),
            _ => BinaryArray::try_new(OffsetBuffer::new(offsets), data, nulls)?.into_data(),
        })
    }
}

/// A column of fixed-size bytes.
#[derive(Debug)]
pub(crate) struct Fixed {
    size: usize,
    rows: usize,
    data: Vec<u8>,
    nulls: Nulls,
}

impl Fixed {
    pub(crate) fn new(size: usize) -> Self {
        Fixed { size, rows: 0, data: Vec::new(), nulls: Nulls::default() }
    }

    /// Appends a value, whose length must be the size of the column.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.rows += 1;
    }

    pub(crate) fn push_null(&mut self) {
        self.nulls.push(self.rows);
        self.data.resize(self.data.len() + self.size, 0);
        self.rows += 1;
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
        self.data.truncate(self.rows * self.size);
        self.nulls.truncate(rows);
    }

    pub(crate) fn reserve(&mut self, rows: usize) {
        self.data.reserve(rows.saturating_mul(self.size));
    }

    pub(crate) fn finish(&mut self, data_type: DataType, _: Vec<ArrayData>) -> Result<ArrayData, ArrowError> {
        let Fixed { rows, data, mut nulls, .. } = std::mem::replace(self, Fixed::new(self.size));
        ArrayData::builder(data_type).len(rows).add_buffer(Buffer::from_vec(data)).nulls(nulls.finish(rows)).build()
    }
}
