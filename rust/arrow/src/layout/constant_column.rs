//! Columns whose rows usually all have the same value, such as the partition.
use std::mem;

use arrow_buffer::{ArrowNativeType, ScalarBuffer};

/// Builder that only counts rows while all values are equal. It then returns a buffer that all batches of a decoder
/// share. This saves 13 of the 29 bytes that each record needs in addition to its value.
#[derive(Debug)]
pub(crate) struct ConstantColumn<T: ArrowNativeType> {
    /// The value of the first row. While `rows` is empty, all rows have this value.
    all: Option<T>,
    len: usize,
    /// The values of all rows if they differ; empty while all values are equal.
    rows: Vec<T>,
    /// Buffer shared with previous batches, and its value.
    shared: Option<(T, ScalarBuffer<T>)>,
}

impl<T: ArrowNativeType> Default for ConstantColumn<T> {
    fn default() -> Self {
        ConstantColumn { all: None, len: 0, rows: Vec::new(), shared: None }
    }
}

impl<T: ArrowNativeType> ConstantColumn<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends `value` until the column has `to` rows.
    pub(crate) fn fill(&mut self, to: usize, value: T) {
        let all = *self.all.get_or_insert(value);
        if self.rows.is_empty() && all != value {
            self.rows.resize(self.len, all);
        }
        if all != value || !self.rows.is_empty() {
            self.rows.resize(to, value);
        }
        self.len = to;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        let rows = self.rows.iter().copied();
        rows.chain(self.all.into_iter().cycle().take(self.len - self.rows.len()))
    }

    /// Returns the rows and resets the builder.
    pub(crate) fn finish(&mut self) -> ScalarBuffer<T> {
        let (all, len, mut rows) = (self.all.take(), mem::take(&mut self.len), mem::take(&mut self.rows));
        match all {
            Some(all) if rows.is_empty() => self.share(all, len),
            _ => {
                // Shrink the buffer to its length, because memory accounting uses the length of constant columns
                // instead of the capacity.
                rows.shrink_to_fit();
                ScalarBuffer::from(rows)
            }
        }
    }

    fn share(&mut self, value: T, len: usize) -> ScalarBuffer<T> {
        match &self.shared {
            Some((known, rows)) if *known == value && rows.len() >= len => rows.slice(0, len),
            _ => {
                let rows = ScalarBuffer::from(vec![value; len]);
                self.shared = Some((value, rows.clone()));
                rows
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_rows_share_memory_until_they_differ() {
        let mut column = ConstantColumn::default();
        column.fill(5, 7);
        column.fill(9, 7);
        assert_eq!((column.len(), column.iter().collect::<Vec<_>>()), (9, vec![7; 9]));
        let first = column.finish();
        column.fill(4, 7);
        let second = column.finish();
        assert_eq!((&*first, &*second), (&[7; 9][..], &[7; 4][..]));
        assert_eq!(first.as_ptr(), second.as_ptr());
        column.fill(2, 7);
        column.fill(2, 8);
        column.fill(3, 8);
        column.fill(5, 7);
        assert_eq!((column.len(), column.iter().collect::<Vec<_>>()), (5, vec![7, 7, 8, 7, 7]));
        let differ = column.finish();
        assert_eq!((&*differ, differ.inner().capacity()), (&[7, 7, 8, 7, 7][..], 5 * size_of::<i32>()));
        column.fill(3, 8);
        assert_eq!(&*column.finish(), [8; 3]);
        assert_eq!(&*ConstantColumn::<i8>::default().finish(), [0i8; 0]);
    }

    #[test]
    fn accepts_empty_first_batch() {
        let mut column = ConstantColumn::default();
        column.fill(0, 1);
        column.fill(2, 2);
        assert_eq!(&*column.finish(), [2, 2]);
    }
}
