//! Data sources of a message, and the encoding of its rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float32Array, Float64Array, GenericBinaryArray, GenericStringArray, Int32Array,
    Int64Array, OffsetSizeTrait, UInt32Array, UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};

use super::super::plan::Json;

/// Fields of a message with their columns.
#[derive(Debug)]
pub(crate) struct Source {
    /// Fields in the order of their numbers.
    pub(super) fields: Vec<Field>,
    /// Fields of each oneof, at most one of which may be set.
    pub(super) oneofs: Vec<Vec<usize>>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: Arc<str>,
    /// Tag with the wire type of the items; packed lists have that of bytes.
    pub(super) tag: u32,
    pub(super) nulls: Option<NullBuffer>,
    /// Nulls among the items of a list or map.
    pub(super) item_nulls: Option<NullBuffer>,
    pub(super) rule: Rule,
    pub(super) value: Value,
}

/// Presence rule of a field.
#[derive(Debug)]
pub(super) enum Rule {
    /// Written unless null.
    Present,
    /// Written always; null is an error.
    Required,
    /// Written unless null or the default.
    Implicit,
    /// Written with one tag per item, or one tag for all.
    List(OffsetBuffer<i32>),
    Packed(OffsetBuffer<i32>),
    /// Written as entries of key and value.
    Map(OffsetBuffer<i32>, Box<Field>),
}

#[derive(Debug)]
pub(super) enum Value {
    /// Plain varints, negative numbers included.
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
    /// Names of enum values, and their numbers.
    Name(Slices, Names),
    Message(Source),
    Group(Source),
    /// Times since 1970, and the number of units in a second.
    Timestamp(Int64Array, i64),
    /// Microseconds.
    Duration(Int64Array),
    /// Value of a wrapper message.
    Wrapper(Box<Field>),
    Json(Slices, Json),
}

/// Values of an enum.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) name: Arc<str>,
    pub(super) numbers: HashMap<Box<str>, i32>,
    /// Default value, omitted by implicit fields.
    pub(super) default: i32,
}

/// Text or bytes.
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
        // All row numbers come from the same column, so they are within bounds.
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
