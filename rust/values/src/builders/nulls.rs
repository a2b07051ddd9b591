//! Which rows of a column are null.

use arrow_buffer::{BooleanBufferBuilder, NullBuffer};

/// The rows that are null, in order: a row that is not costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Nulls {
    rows: Vec<u32>,
}

impl Nulls {
    /// Row number `row`, after all before it, is null. Columns have no more than `i32::MAX` rows.
    #[inline(always)]
    pub(super) fn push(&mut self, row: usize) {
        self.rows.push(row as u32);
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.rows.truncate(self.rows.partition_point(|&row| (row as usize) < rows));
    }

    /// The bitmap of a column with so many rows.
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
