//! Columns of numbers and booleans.

use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};

use super::nulls::Nulls;

/// Type of the values in a column.
pub(crate) trait Native: Copy + Default {
    fn buffer(values: Vec<Self>) -> Buffer;
}

macro_rules! native {
    ($($kind:ty)*) => {$(impl Native for $kind {
        fn buffer(values: Vec<Self>) -> Buffer {
            native(values)
        }
    })*};
}

native!(i8 i16 i32 i64 f32 f64 i128 arrow_buffer::i256 arrow_buffer::IntervalMonthDayNano);

fn native<T: ArrowNativeType>(values: Vec<T>) -> Buffer {
    ScalarBuffer::from(values).into_inner()
}

impl Native for bool {
    fn buffer(values: Vec<Self>) -> Buffer {
        BooleanBuffer::from(values).into_inner()
    }
}

/// A column of numbers or booleans.
#[derive(Debug, Default)]
pub(crate) struct Values<T> {
    values: Vec<T>,
    nulls: Nulls,
}

impl<T: Native> Values<T> {
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) {
        self.values.push(value);
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        self.nulls.push(self.values.len());
        self.values.push(T::default());
    }

    /// Returns the values of the last `rows` rows.
    pub(crate) fn last(&self, rows: usize) -> &[T] {
        self.values.get(self.values.len().saturating_sub(rows)..).unwrap_or_default()
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    pub(crate) fn reserve(&mut self, rows: usize) {
        self.values.reserve(rows);
    }

    /// Builds the array. For an enum, `below` contains the array of symbols.
    pub(crate) fn finish(&mut self, data_type: DataType, below: Vec<ArrayData>) -> Result<ArrayData, ArrowError> {
        let rows = self.values.len();
        let values = T::buffer(std::mem::take(&mut self.values));
        let data = ArrayData::builder(data_type).len(rows).add_buffer(values).child_data(below);
        data.nulls(self.nulls.finish(rows)).build()
    }
}
