//! A column, and how each of its rows is written.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, GenericBinaryArray, GenericStringArray, Int32Array,
    Int64Array, OffsetSizeTrait, UInt32Array, UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};

use super::super::plan::Json;

/// A message's fields, each with its column.
#[derive(Debug)]
pub(crate) struct Source {
    /// In the order of their numbers.
    pub(super) fields: Vec<Field>,
    /// Fields of which one may be set.
    pub(super) oneofs: Vec<Vec<usize>>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: Arc<str>,
    /// With the wire type of its items; packed ones have that of bytes.
    pub(super) tag: u32,
    pub(super) nulls: Option<NullBuffer>,
    /// Of the items of a list or map.
    pub(super) item_nulls: Option<NullBuffer>,
    pub(super) rule: Rule,
    pub(super) value: Value,
}

/// When a field is written.
#[derive(Debug)]
pub(super) enum Rule {
    /// Wherever it is not null.
    Present,
    /// The same, and null is an error.
    Required,
    /// Only if it is not its default, which null stands for too.
    Implicit,
    /// One tag for each item, or one for all.
    List(OffsetBuffer<i32>),
    Packed(OffsetBuffer<i32>),
    /// Keys, which values follow.
    Map(OffsetBuffer<i32>, Box<Field>),
}

#[derive(Debug)]
pub(super) enum Value {
    /// As they are, also what is negative.
    Int(Int32Array),
    Uint(UInt32Array),
    Long(Int64Array),
    Ulong(UInt64Array),
    ZigzagInt(Int32Array),
    ZigzagLong(Int64Array),
    FixedInt(Int32Array),
    FixedUint(UInt32Array),
    FixedLong(Int64Array),
    FixedUlong(UInt64Array),
    Float(Float32Array),
    Double(Float64Array),
    Boolean(BooleanArray),
    Bytes(Slices),
    /// Names of an enum's values, and these by name.
    Name(Slices, Names),
    Message(Source),
    Group(Source),
    /// Times since 1970, and how many of their unit a second has.
    Timestamp(Int64Array, i64),
    /// Microseconds.
    Duration(Int64Array),
    /// The value of a message that has nothing else.
    Wrapper(Box<Field>),
    Json(Slices, Json),
}

/// An enum's values.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) name: Arc<str>,
    pub(super) numbers: HashMap<Box<str>, i32>,
    /// What is not written where there is no presence.
    pub(super) default: i32,
}

/// Texts or bytes.
#[derive(Debug)]
pub(super) enum Slices {
    Text(GenericStringArray<i32>),
    LargeText(GenericStringArray<i64>),
    Bytes(GenericBinaryArray<i32>),
    LargeBytes(GenericBinaryArray<i64>),
}

impl Slices {
    pub(super) fn of(column: &ArrayRef) -> Option<Slices> {
        fn of<T: Clone + 'static>(column: &ArrayRef) -> Option<T> {
            column.as_any().downcast_ref::<T>().cloned()
        }
        let text = of(column).map(Slices::Text).or_else(|| of(column).map(Slices::LargeText));
        text.or_else(|| of(column).map(Slices::Bytes)).or_else(|| of(column).map(Slices::LargeBytes))
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self, Slices::Text(_) | Slices::LargeText(_))
    }

    #[inline]
    pub(super) fn get(&self, row: usize) -> &[u8] {
        // Rows, items and keys are those of the column that the array is of: there are no others.
        fn at<T: OffsetSizeTrait>(array: &GenericBinaryArray<T>, row: usize) -> &[u8] {
            if row < array.len() { array.value(row) } else { &[] }
        }
        fn text<T: OffsetSizeTrait>(array: &GenericStringArray<T>, row: usize) -> &[u8] {
            if row < array.len() { array.value(row).as_bytes() } else { &[] }
        }
        match self {
            Slices::Text(array) => text(array, row),
            Slices::LargeText(array) => text(array, row),
            Slices::Bytes(array) => at(array, row),
            Slices::LargeBytes(array) => at(array, row),
        }
    }
}
