//! Columns of bytes, text among them.

use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::DataType;
use samsarrow_wire::Piece;

use super::nulls::Nulls;
use crate::error::{Reason, Step};

/// Room for the last value, which is copied with what follows it.
const SLACK: usize = 64;

/// A column of bytes of any lengths.
#[derive(Debug)]
pub(crate) struct Bytes {
    /// One more than rows.
    offsets: Vec<i32>,
    data: Vec<u8>,
    nulls: Nulls,
    /// Rows and bytes of the array before: the next one is likely to be alike.
    before: (usize, usize),
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes { offsets: vec![0], data: Vec::new(), nulls: Nulls::default(), before: (0, 0) }
    }
}

impl Bytes {
    #[inline(always)]
    pub(crate) fn push(&mut self, piece: Piece<'_>) -> Step {
        let end = i32::try_from(self.data.len() + piece.len()).map_err(|_| Reason::Full)?;
        match piece.len() {
            ..=16 => piece.append_short::<16>(&mut self.data),
            _ => piece.append_to(&mut self.data),
        }
        self.offsets.push(end);
        Ok(())
    }

    /// Appends what a function appends. If that fails, what it has appended is no row's, and is cut off with the row.
    #[inline]
    pub(crate) fn push_by(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Step) -> Step {
        write(&mut self.data)?;
        self.offsets.push(i32::try_from(self.data.len()).map_err(|_| Reason::Full)?);
        Ok(())
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        self.nulls.push(self.offsets.len() - 1);
        // No push lets it grow beyond.
        self.offsets.push(self.data.len() as i32);
    }

    /// The last values.
    pub(crate) fn last(&self, rows: usize) -> impl Iterator<Item = &[u8]> + Clone {
        let ends = self.offsets.get(self.offsets.len().saturating_sub(rows + 1)..).unwrap_or_default();
        ends.windows(2).filter_map(|ends| match *ends {
            [start, end] => self.data.get(start as usize..end as usize),
            _ => None,
        })
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.data.truncate(self.offsets.last().map_or(0, |&end| end as usize));
        self.nulls.truncate(rows);
    }

    pub(crate) fn reserve(&mut self, rows: usize) {
        self.offsets.reserve(rows);
        let (before, bytes) = self.before;
        let bytes = bytes.saturating_mul(rows.min(before)).checked_div(before).unwrap_or(0);
        self.data.reserve(bytes + SLACK);
    }

    pub(crate) fn finish(&mut self, data_type: DataType) -> ArrayDataBuilder {
        let Bytes { offsets, data, mut nulls, .. } = std::mem::take(self);
        let rows = offsets.len() - 1;
        self.before = (rows, data.len());
        let offsets = ScalarBuffer::from(offsets).into_inner();
        let data = ArrayData::builder(data_type).len(rows).add_buffer(offsets).add_buffer(Buffer::from_vec(data));
        data.nulls(nulls.finish(rows))
    }
}

/// A column of bytes of one length.
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

    /// Appends bytes, which have the length.
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

    pub(crate) fn finish(&mut self, data_type: DataType) -> ArrayDataBuilder {
        let Fixed { rows, data, mut nulls, .. } = std::mem::replace(self, Fixed::new(self.size));
        ArrayData::builder(data_type).len(rows).add_buffer(Buffer::from_vec(data)).nulls(nulls.finish(rows))
    }
}
