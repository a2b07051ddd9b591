//! Column whose values are copied to one contiguous buffer.
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use samsarrow_wire::ShortBytes;
use samsarrow_wire::batch::RecordError;

use super::{Capacity, Layout, Nulls, NullsAmong, Origin, ValueColumn, nulls_among, out_of_bounds};
use crate::pool::Pool;

/// Builder for [`Layout::Binary`]. While all rows are null, only their number is stored, because most topics have no
/// keys.
#[derive(Debug, Default)]
pub(crate) struct BinaryColumn {
    leading_nulls: usize,
    /// End offset of each row, after an initial 0; empty while all rows are null.
    offsets: Vec<i32>,
    data: Vec<u8>,
    nulls: Nulls,
    rows_hint: Capacity,
    bytes_hint: Capacity,
    pool: Pool,
}

impl BinaryColumn {
    #[cold]
    #[inline(never)]
    fn materialise(&mut self) {
        let rows = std::mem::take(&mut self.leading_nulls);
        Capacity::new(rows + 1, 0).reserve_in(&mut self.offsets);
        self.offsets.resize(rows + 1, 0);
        self.rows_hint.reserve_in(&mut self.offsets);
        self.data = self.pool.take(self.bytes_hint.all());
        if rows > 0 {
            self.nulls.push_nulls(0, rows);
        }
    }

    /// Appends values without nulls.
    fn push_values(&mut self, data: &[u8], starts: &[u32], lens: &[i32]) -> Result<(), RecordError> {
        if self.offsets.is_empty() {
            self.materialise();
        }
        // The end fits into 31 bits, because the decoder stops before the data exceeds them.
        let mut end = self.data.len() as i32;
        self.offsets.extend(lens.iter().map(|&len| {
            end += len;
            end
        }));
        match lens.iter().fold(0, |longest, &len| longest.max(len)) {
            ..=16 => append_all::<16>(&mut self.data, data, starts, lens)?,
            17..=32 => append_all::<32>(&mut self.data, data, starts, lens)?,
            33..=64 => append_all::<64>(&mut self.data, data, starts, lens)?,
            65..=128 => append_all::<128>(&mut self.data, data, starts, lens)?,
            129.. => append_all::<0>(&mut self.data, data, starts, lens)?,
        }
        self.nulls.push_valid(lens.len());
        Ok(())
    }
}

/// Appends values of at most `N` bytes, or of any length if `N` is 0.
#[inline]
fn append_all<const N: usize>(out: &mut Vec<u8>, data: &[u8], starts: &[u32], lens: &[i32]) -> Result<(), RecordError> {
    for (&start, &len) in starts.iter().zip(lens) {
        ShortBytes::of(data, start as usize, len as usize).ok_or_else(|| out_of_bounds(data))?.append_short::<N>(out);
    }
    Ok(())
}

impl ValueColumn for BinaryColumn {
    const LAYOUT: Layout = Layout::Binary;

    fn with_pool(pool: &Pool) -> Self {
        BinaryColumn { pool: pool.clone(), ..BinaryColumn::default() }
    }

    fn reserve(&mut self, rows: Capacity, bytes: Capacity) {
        if self.offsets.is_empty() {
            (self.rows_hint, self.bytes_hint) = (rows, bytes);
        } else {
            rows.reserve_in(&mut self.offsets);
            bytes.reserve_in(&mut self.data);
        }
    }

    fn push_block(&mut self, data: &[u8], _: Origin, starts: &[u32], lens: &[i32]) -> Result<(), RecordError> {
        match nulls_among(lens) {
            NullsAmong::None => self.push_values(data, starts, lens)?,
            NullsAmong::All => self.push_nulls(lens.len()),
            NullsAmong::Some => {
                for (start, len) in starts.chunks(1).zip(lens.chunks(1)) {
                    match len {
                        [..=-1] => self.push_nulls(1),
                        _ => self.push_values(data, start, len)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn push_nulls(&mut self, count: usize) {
        if self.offsets.is_empty() {
            self.leading_nulls += count;
            return;
        }
        let rows = self.offsets.len() - 1;
        self.nulls.push_nulls(rows, count);
        self.offsets.resize(rows + 1 + count, self.data.len() as i32);
    }

    fn truncate(&mut self, rows: usize) {
        if self.offsets.is_empty() {
            self.leading_nulls = rows;
            return;
        }
        self.offsets.truncate(rows + 1);
        // After an error, offsets may point beyond the data, but the data never exceeds the last offset.
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
        Ok(Arc::new(BinaryArray::try_new(offsets, column.pool.make_buffer(column.data), nulls.finish())?))
    }
}
