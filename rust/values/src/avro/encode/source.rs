//! Sources from which the parts of a value are encoded.

use crate::layout::{Blobs, Ranges};
use std::sync::Arc;

use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, IntervalMonthDayNano, NullBuffer, OffsetBuffer, ScalarBuffer, i256,
};

use super::symbols::Symbols;

/// The column or columns that a part of a value is encoded from, and their encoding. A source holds the buffers of the
/// columns.
#[derive(Debug)]
pub(crate) enum Source {
    /// Null, whose encoding is empty.
    Nothing,
    /// The same encoded bytes in every row.
    Constant(Box<[u8]>),
    Boolean(BooleanBuffer),
    Int(ScalarBuffer<i32>),
    Long(ScalarBuffer<i64>),
    Scaled(Box<Scaled>),
    Float(ScalarBuffer<f32>),
    Double(ScalarBuffer<f64>),
    /// Bytes or text in the most frequent layout: 32-bit offsets.
    Text(OffsetBuffer<i32>, Buffer),
    /// Bytes or text in another layout.
    Bytes(Blobs),
    /// Values of a fixed, and the size of each value in bytes.
    Fixed(Box<(Blobs, usize)>),
    /// 16 bytes, which are written as the text of a UUID.
    Uuid(Blobs),
    /// Text of a UUID, which is written as 16 bytes.
    UuidBytes(Blobs),
    Symbols(Box<(Blobs, Symbols)>),
    /// Symbol number of each dictionary value, or -1 for an unknown symbol, and the source of the dictionary values.
    /// For an unknown symbol, this source reports the error.
    Numbers(Box<(Box<[i64]>, Source)>),
    Duration(ScalarBuffer<IntervalMonthDayNano>),
    Decimal(Box<Decimal<i128>>),
    WideDecimal(Box<Decimal<i256>>),
    List(Box<(Ranges, Source)>),
    Map(Box<Entries>),
    Record(Box<[Field]>),
    /// A column that is encoded as one branch of a union, or as null.
    Branch(Box<Branch>),
    /// A struct with one column per union member. In each row, at most one of the columns is not null.
    Members(Box<Members>),
    /// Index of the dictionary value in each row, and the source of the dictionary values.
    Keys(Box<(Box<[usize]>, Source)>),
    /// Validity of the rows, and their source. A null row is an error.
    Required(Box<(NullBuffer, Source)>),
}

/// Integers that are converted to another unit: multiplied by `times`, or divided by `per`. A remainder is an error.
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
    /// Size of the fixed; `None` for bytes, which have a length prefix.
    pub(crate) size: Option<usize>,
    pub(crate) precision: u8,
    /// 10^`precision`, the exclusive upper bound of absolute values. `None` if it does not fit in `T`, in which case
    /// every value is within the precision.
    pub(crate) beyond: Option<T>,
}

#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) ranges: Ranges,
    pub(crate) keys: Source,
    /// Keys as bytes, which error messages show.
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
    /// Index of the branch for rows that are not null.
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
