//! Data sources of the parts of a value.

use crate::layout::{Blobs, Ranges};
use std::sync::Arc;

use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, IntervalMonthDayNano, NullBuffer, OffsetBuffer, ScalarBuffer, i256,
};

use super::symbols::Symbols;

/// Column of a type, and the encoding of its rows. It holds the column's buffers.
#[derive(Debug)]
pub(crate) enum Source {
    /// Null, which has no bytes.
    Nothing,
    /// The same bytes in every row.
    Constant(Box<[u8]>),
    Boolean(BooleanBuffer),
    Int(ScalarBuffer<i32>),
    Long(ScalarBuffer<i64>),
    Scaled(Box<Scaled>),
    Float(ScalarBuffer<f32>),
    Double(ScalarBuffer<f64>),
    /// Bytes or text in the most frequent layout.
    Text(OffsetBuffer<i32>, Buffer),
    /// Bytes or text in another layout.
    Bytes(Blobs),
    /// Fixed-size bytes, with their size.
    Fixed(Box<(Blobs, usize)>),
    /// 16 bytes, written as the text of a UUID.
    Uuid(Blobs),
    /// Text of a UUID, written as 16 bytes.
    UuidBytes(Blobs),
    Symbols(Box<(Blobs, Symbols)>),
    /// Symbol numbers of dictionary values; −1 for an unknown symbol, whose error the other source reports.
    Numbers(Box<(Box<[i64]>, Source)>),
    Duration(ScalarBuffer<IntervalMonthDayNano>),
    Decimal(Box<Decimal<i128>>),
    WideDecimal(Box<Decimal<i256>>),
    List(Box<(Ranges, Source)>),
    Map(Box<Entries>),
    Record(Box<[Field]>),
    /// Branch of a union, or null.
    Branch(Box<Branch>),
    /// Struct of union members, one of which is set.
    Members(Box<Members>),
    /// Rows of a dictionary.
    Keys(Box<(Box<[usize]>, Source)>),
    /// A source in which null is an error.
    Required(Box<(NullBuffer, Source)>),
}

/// Numbers in another unit: multiplied by `times`, or divided by `per` without a remainder.
#[derive(Debug)]
pub(crate) struct Scaled {
    pub(crate) values: ScalarBuffer<i64>,
    pub(crate) times: i64,
    pub(crate) per: i64,
    /// True if the Avro type is `int`.
    pub(crate) narrow: bool,
}

#[derive(Debug)]
pub(crate) struct Decimal<T: ArrowNativeType> {
    pub(crate) values: ScalarBuffer<T>,
    /// Size of a fixed; `None` if the bytes have a length prefix.
    pub(crate) size: Option<usize>,
    pub(crate) precision: u8,
    /// First number with too many digits, if the type has one.
    pub(crate) beyond: Option<T>,
}

#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) ranges: Ranges,
    pub(crate) keys: Source,
    /// Keys as bytes, for error messages.
    pub(crate) names: Blobs,
    pub(crate) values: Source,
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: Arc<str>,
    pub(crate) source: Source,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) nulls: Option<NullBuffer>,
    /// Index of the null branch, if the union has one.
    pub(crate) null: Option<i64>,
    /// Index of the branch of the value.
    pub(crate) value: i64,
    pub(crate) of: Source,
}

#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) nulls: Option<NullBuffer>,
    pub(crate) null: Option<i64>,
    pub(crate) members: Box<[Member]>,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: Box<str>,
    pub(crate) nulls: Option<NullBuffer>,
    pub(crate) branch: i64,
    pub(crate) of: Source,
}
