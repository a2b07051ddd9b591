//! Null rows of a column, as a list instead of a bitmap.

use arrow_buffer::{BooleanBufferBuilder, NullBuffer};

/// Indices of the null rows, in ascending order. Other rows need no memory.
#[derive(Debug, Default)]
pub(crate) struct Nulls {
    rows: Vec<u32>,
}

impl Nulls {
    /// Marks the row `row` as null. Rows are marked in ascending order, and a column has at most `i32::MAX` rows.
    #[inline(always)]
    pub(super) fn push(&mut self, row: usize) {
        self.rows.push(row as u32);
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.rows.truncate(self.rows.partition_point(|&row| (row as usize) < rows));
    }

    /// Returns the validity bitmap for a column with `rows` rows.
    pub(super) fn finish(&mut self, rows: usize) -> Option<NullBuffer> {
        if self.rows.is_empty() {
            return None;
        }
        let mut bits = BooleanBufferBuilder::new(rows);
        bits.append_n(rows, true);
        self.rows.drain(..).for_each(|row| bits.set_bit(row as usize, false));
        Some(NullBuffer::new(bits.finish()))
    }
}
