//! Sources from which the fields of a message are encoded.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, UInt32Array, UInt64Array};
use arrow_buffer::{NullBuffer, OffsetBuffer};

use super::super::plan::Json;
use crate::layout::{Blobs, Ranges};

/// Fields of a message with the columns that they are encoded from.
#[derive(Debug)]
pub(crate) struct Source {
    /// Fields that have a column, in ascending order of their numbers.
    pub(super) fields: Vec<Field>,
    /// Indexes of the fields in each oneof. At most one field of a oneof may be set in a row.
    pub(super) oneofs: Vec<Vec<usize>>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: Arc<str>,
    /// Field number and wire type. A packed list has the wire type of bytes; other lists have the wire type of their
    /// items.
    pub(super) tag: u32,
    pub(super) nulls: Option<NullBuffer>,
    /// Validity of the items of a list, or of the values of a map.
    pub(super) item_nulls: Option<NullBuffer>,
    pub(super) rule: Rule,
    pub(super) value: Value,
}

/// Rule that determines when and how a field is written.
#[derive(Debug)]
pub(super) enum Rule {
    /// Written unless it is null.
    Present,
    /// Always written. A null is an error.
    Required,
    /// Written unless it is null or the default.
    Implicit,
    /// A list whose items are each written with the tag.
    List(Ranges),
    Packed(Ranges),
    /// The entries of a map, and the field of the keys. In each entry, the value follows the key.
    Map(OffsetBuffer<i32>, Box<Field>),
}

#[derive(Debug)]
pub(super) enum Value {
    /// Integers written as varints. Negative numbers are extended to 64 bits.
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
    Bytes(Blobs),
    /// Names of enum values, and the lookup of their numbers.
    Name(Blobs, Names),
    Message(Source),
    Group(Source),
    /// Timestamps since 1970, and the number of their units per second.
    Timestamp(Int64Array, i64),
    /// Durations in microseconds.
    Duration(Int64Array),
    /// Value of a wrapper message's only field.
    Wrapper(Box<Field>),
    Json(Blobs, Json),
    /// Index of the dictionary value in each row, and the dictionary values.
    Keys(Box<[usize]>, Box<Value>),
}

/// Numbers of an enum's values by name.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) name: Arc<str>,
    pub(super) numbers: HashMap<Box<str>, i32>,
    /// Number of the default value, which is not written for fields with implicit presence.
    pub(super) default: i32,
}
