//! Values copied into one contiguous buffer.
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

use super::{Layout, Nulls, Origin, ValueColumn};

/// See [`Layout::Binary`]. While all rows are null, they are only counted: most topics have no keys.
#[derive(Debug, Default)]
pub(crate) struct BinaryColumn {
    leading_nulls: usize,
    /// One more than rows; none while all rows are null.
    offsets: Vec<i32>,
    data: Vec<u8>,
    nulls: Nulls,
    rows_hint: usize,
    bytes_hint: usize,
}

impl BinaryColumn {
    #[cold]
    #[inline(never)]
    fn materialise(&mut self) {
        let rows = std::mem::take(&mut self.leading_nulls);
        self.offsets.reserve(rows.max(self.rows_hint) + 1);
        self.offsets.resize(rows + 1, 0);
        self.data.reserve(self.bytes_hint);
        if rows > 0 {
            self.nulls.push_nulls(0, rows);
        }
    }

    #[inline(never)]
    fn push_null(&mut self) {
        if self.offsets.is_empty() {
            self.leading_nulls += 1;
            return;
        }
        self.nulls.push_nulls(self.offsets.len() - 1, 1);
        self.offsets.push(self.data.len() as i32);
    }
}

impl ValueColumn for BinaryColumn {
    const LAYOUT: Layout = Layout::Binary;

    fn reserve(&mut self, rows: usize, bytes: usize) {
        if self.offsets.is_empty() {
            (self.rows_hint, self.bytes_hint) = (rows, bytes);
        } else {
            self.offsets.reserve(rows);
            self.data.reserve(bytes);
        }
    }

    #[inline(always)]
    fn push(&mut self, data: &[u8], _: Origin, start: usize, len: i32) {
        if len < 0 {
            return self.push_null();
        }
        if self.offsets.is_empty() {
            self.materialise();
        }
        self.data.extend_from_slice(data.get(start..start + len as usize).unwrap_or_default());
        // The decoder stops before the data could grow past i32.
        self.offsets.push(self.data.len() as i32);
        self.nulls.push_valid();
    }

    fn truncate(&mut self, rows: usize) {
        if self.offsets.is_empty() {
            self.leading_nulls = rows;
            return;
        }
        self.offsets.truncate(rows + 1);
        self.data.truncate(self.offsets.last().map_or(0, |&end| end as usize));
        self.nulls.truncate(rows);
    }

    fn finish(&mut self, _: &[Buffer]) -> Result<ArrayRef, ArrowError> {
        let column = std::mem::take(self);
        if column.offsets.is_empty() {
            return Ok(Arc::new(BinaryArray::new_null(column.leading_nulls)));
        }
        let mut nulls = column.nulls;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(column.offsets));
        Ok(Arc::new(BinaryArray::try_new(offsets, Buffer::from_vec(column.data), nulls.finish())?))
    }
}
