//! Values as views into the fetched or decompressed bytes.
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryViewArray};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::ArrowError;

use super::{Layout, Nulls, Origin, ValueColumn};

/// Values up to this length lie in the view itself.
const MAX_INLINE: i32 = 12;

/// See [`Layout::View`]. While all rows are null, they are only counted: most topics have no keys.
#[derive(Debug, Default)]
pub(crate) struct ViewColumn {
    leading_nulls: usize,
    /// None while all rows are null.
    views: Vec<u128>,
    nulls: Nulls,
    rows_hint: usize,
}

impl ViewColumn {
    #[cold]
    #[inline(never)]
    fn materialise(&mut self) {
        let rows = std::mem::take(&mut self.leading_nulls);
        self.views.reserve(rows.max(self.rows_hint));
        self.views.resize(rows, 0);
        if rows > 0 {
            self.nulls.push_nulls(0, rows);
        }
    }

    #[inline(never)]
    fn push_null(&mut self) {
        if self.views.is_empty() {
            self.leading_nulls += 1;
            return;
        }
        self.nulls.push_nulls(self.views.len(), 1);
        self.views.push(0);
    }
}

impl ValueColumn for ViewColumn {
    const LAYOUT: Layout = Layout::View;

    fn reserve(&mut self, rows: usize, _: usize) {
        if self.views.is_empty() {
            self.rows_hint = rows;
        } else {
            self.views.reserve(rows);
        }
    }

    #[inline(always)]
    fn push(&mut self, data: &[u8], origin: Origin, start: usize, len: i32) {
        if len < 0 {
            return self.push_null();
        }
        if self.views.is_empty() {
            self.materialise();
        }
        let view = if len > MAX_INLINE {
            let prefix = data.get(start..).and_then(<[u8]>::first_chunk::<4>).map_or(0, |p| u32::from_le_bytes(*p));
            // Buffers are cut so that positions stay below 2 GiB.
            let offset = origin.start + start as u32;
            u128::from(len as u32)
                | u128::from(prefix) << 32
                | u128::from(origin.buffer) << 64
                | u128::from(offset) << 96
        } else {
            inline_view(data, start, len as u32)
        };
        self.views.push(view);
        self.nulls.push_valid();
    }

    fn truncate(&mut self, rows: usize) {
        if self.views.is_empty() {
            self.leading_nulls = rows;
            return;
        }
        self.views.truncate(rows);
        self.nulls.truncate(rows);
    }

    fn finish(&mut self, buffers: &[Buffer]) -> Result<ArrayRef, ArrowError> {
        let column = std::mem::take(self);
        if column.views.is_empty() {
            return Ok(Arc::new(BinaryViewArray::new_null(column.leading_nulls)));
        }
        let mut nulls = column.nulls;
        let views = ScalarBuffer::from(column.views);
        Ok(Arc::new(BinaryViewArray::try_new(views, buffers.to_vec(), nulls.finish())?))
    }
}

#[inline(always)]
fn inline_view(data: &[u8], start: usize, len: u32) -> u128 {
    // One wide load and a mask; only within the last bytes of the data a copy.
    let bytes = match data.get(start..).and_then(<[u8]>::first_chunk::<16>) {
        Some(chunk) => u128::from_le_bytes(*chunk) & ((1u128 << (len * 8)) - 1),
        None => {
            let mut chunk = [0; 16];
            let value = data.get(start..start + len as usize).unwrap_or_default();
            if let Some(head) = chunk.get_mut(..value.len()) {
                head.copy_from_slice(value);
            }
            u128::from_le_bytes(chunk)
        }
    };
    u128::from(len) | bytes << 32
}
