//! Data sources of a message, and the encoding of its rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, UInt32Array, UInt64Array};
use arrow_buffer::{NullBuffer, OffsetBuffer};

use super::super::plan::Json;
use crate::layout::{Blobs, Ranges};

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
    /// One tag for each item, or one for all.
    List(Ranges),
    Packed(Ranges),
    /// Keys, which values follow.
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
    Bytes(Blobs),
    /// Names of an enum's values, and these by name.
    Name(Blobs, Names),
    Message(Source),
    Group(Source),
    /// Times since 1970, and the number of units in a second.
    Timestamp(Int64Array, i64),
    /// Microseconds.
    Duration(Int64Array),
    /// Value of a wrapper message.
    Wrapper(Box<Field>),
    Json(Blobs, Json),
    /// Rows of a dictionary.
    Keys(Box<[usize]>, Box<Value>),
}

/// Values of an enum.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) name: Arc<str>,
    pub(super) numbers: HashMap<Box<str>, i32>,
    /// Default value, omitted by implicit fields.
    pub(super) default: i32,
}
