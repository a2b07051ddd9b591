//! Columns that only consist of offsets or validity: lists, maps, structs and nulls.

use arrow_buffer::ScalarBuffer;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};

use super::nulls::Nulls;
use crate::error::{Reason, Step};

/// Offsets and validity of a list or map column.
#[derive(Debug)]
pub(crate) struct List {
    /// End offset of each row in the items, after an initial 0.
    offsets: Vec<i32>,
    nulls: Nulls,
    /// Number of items in the unfinished row.
    open: u64,
}

impl Default for List {
    fn default() -> Self {
        List { offsets: vec![0], nulls: Nulls::default(), open: 0 }
    }
}

impl List {
    /// Returns the number of items in all rows.
    fn items(&self) -> i32 {
        self.offsets.last().copied().unwrap_or(0)
    }

    /// Checks that `items` more items fit into the column.
    pub(crate) fn check(&self, items: u64) -> Step {
        let left = (i32::MAX - self.items()) as u64;
        if items <= left { Ok(()) } else { Err(Reason::Full.into()) }
    }

    /// Appends a row of `items` items. The caller must have called [`List::check`].
    pub(crate) fn push(&mut self, items: u64) {
        self.offsets.push(self.items() + items as i32);
    }

    /// Adds items to the unfinished row.
    #[inline(always)]
    pub(crate) fn add(&mut self, items: u64) {
        self.open += items;
    }

    /// Returns the number of items in the unfinished row.
    #[inline(always)]
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// Appends the unfinished row.
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

    /// Truncates the column, and returns the number of items in the remaining rows.
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

/// Column whose rows are only counted: a struct, whose values are in its fields, or a column of nulls.
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

    /// Does nothing, because the column has no data.
    pub(crate) fn reserve(&mut self, _: usize) {}

    pub(crate) fn finish(&mut self, data_type: DataType, fields: Vec<ArrayData>) -> Result<ArrayData, ArrowError> {
        let Count { rows, mut nulls } = std::mem::take(self);
        // A column of type null has no validity bitmap.
        let nulls = if data_type == DataType::Null { None } else { nulls.finish(rows) };
        ArrayData::builder(data_type).len(rows).child_data(fields).nulls(nulls).build()
    }
}
