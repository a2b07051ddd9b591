//! Columns that have nothing of their own but which rows there are: lists, maps, structs, nulls.

use arrow_buffer::ScalarBuffer;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};

use super::nulls::Nulls;
use crate::error::{Reason, Step};

/// How many items each row has.
#[derive(Debug)]
pub(crate) struct List {
    /// One more than rows.
    offsets: Vec<i32>,
    nulls: Nulls,
    /// Items of the row that is not complete.
    open: u64,
}

impl Default for List {
    fn default() -> Self {
        List { offsets: vec![0], nulls: Nulls::default(), open: 0 }
    }
}

impl List {
    /// How many items all rows have.
    fn items(&self) -> i32 {
        self.offsets.last().copied().unwrap_or(0)
    }

    /// Whether there is room for so many items.
    pub(crate) fn check(&self, items: u64) -> Step {
        let left = (i32::MAX - self.items()) as u64;
        if items <= left { Ok(()) } else { Err(Reason::Full.into()) }
    }

    /// Appends a row with so many items, for which [`List::check`] has found room.
    pub(crate) fn push(&mut self, items: u64) {
        self.offsets.push(self.items() + items as i32);
    }

    /// Counts items of a row that may have more.
    #[inline(always)]
    pub(crate) fn add(&mut self, items: u64) {
        self.open += items;
    }

    /// How many there are of it.
    #[inline(always)]
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// Appends the row of the items that were added.
    #[inline(always)]
    pub(crate) fn close(&mut self) -> Step {
        self.check(self.open)?;
        self.push(self.open);
        self.open = 0;
        Ok(())
    }

    pub(crate) fn push_null(&mut self) {
        self.nulls.push(self.offsets.len() - 1);
        self.offsets.push(self.items());
    }

    /// Returns how many items remain.
    pub(crate) fn truncate(&mut self, rows: usize) -> usize {
        self.offsets.truncate(rows + 1);
        self.nulls.truncate(rows);
        self.open = 0;
        self.items() as usize
    }

    pub(crate) fn reserve(&mut self, rows: usize) {
        self.offsets.reserve(rows);
    }

    pub(crate) fn finish(&mut self, data_type: DataType, items: Vec<ArrayData>) -> Result<ArrayData, ArrowError> {
        let List { offsets, mut nulls, .. } = std::mem::take(self);
        let rows = offsets.len() - 1;
        let offsets = ScalarBuffer::from(offsets).into_inner();
        let data = ArrayData::builder(data_type).len(rows).add_buffer(offsets).child_data(items);
        data.nulls(nulls.finish(rows)).build()
    }
}

/// Rows that are only counted: of a struct, or nulls without a type.
#[derive(Debug, Default)]
pub(crate) struct Count {
    rows: usize,
    nulls: Nulls,
}

impl Count {
    #[inline(always)]
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    pub(crate) fn push(&mut self) {
        self.rows += 1;
    }

    pub(crate) fn push_null(&mut self) {
        self.nulls.push(self.rows);
        self.rows += 1;
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
        self.nulls.truncate(rows);
    }

    /// Nothing to make room in.
    pub(crate) fn reserve(&mut self, _: usize) {}

    pub(crate) fn finish(&mut self, data_type: DataType, fields: Vec<ArrayData>) -> Result<ArrayData, ArrowError> {
        let Count { rows, mut nulls } = std::mem::take(self);
        // All rows of this type are null, and it has no bitmap.
        let nulls = if data_type == DataType::Null { None } else { nulls.finish(rows) };
        ArrayData::builder(data_type).len(rows).child_data(fields).nulls(nulls).build()
    }
}
