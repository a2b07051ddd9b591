//! Where the parts of a value come from.

use std::sync::Arc;

use arrow_buffer::{
    ArrowNativeType, BooleanBuffer, Buffer, IntervalMonthDayNano, NullBuffer, OffsetBuffer, ScalarBuffer, i256,
};

use super::bytes::Blobs;
use super::symbols::Symbols;

/// The column of a type, and how its rows are written. It holds the column's buffers.
#[derive(Debug)]
pub(crate) enum Source {
    /// Null takes no bytes.
    Nothing,
    /// The same bytes in every row.
    Constant(Box<[u8]>),
    Boolean(BooleanBuffer),
    Int(ScalarBuffer<i32>),
    Long(ScalarBuffer<i64>),
    Scaled(Box<Scaled>),
    Float(ScalarBuffer<f32>),
    Double(ScalarBuffer<f64>),
    /// Bytes or text as most columns have it.
    Text(OffsetBuffer<i32>, Buffer),
    /// The same of another layout.
    Bytes(Blobs),
    /// As many bytes as that.
    Fixed(Box<(Blobs, usize)>),
    /// 16 bytes as a UUID's text.
    Uuid(Blobs),
    /// A UUID's text as 16 bytes.
    UuidBytes(Blobs),
    Symbols(Box<(Blobs, Symbols)>),
    /// Numbers of symbols; what has none is −1, and why says the other one.
    Numbers(Box<(Box<[i64]>, Source)>),
    Duration(ScalarBuffer<IntervalMonthDayNano>),
    Decimal(Box<Decimal<i128>>),
    WideDecimal(Box<Decimal<i256>>),
    List(Box<(Ranges, Source)>),
    Map(Box<Entries>),
    Record(Box<[Field]>),
    /// A branch of a union, or null.
    Branch(Box<Branch>),
    /// A struct of members, of which one is set.
    Members(Box<Members>),
    /// Rows of a dictionary.
    Keys(Box<(Box<[usize]>, Source)>),
    /// A null is an error.
    Required(Box<(NullBuffer, Source)>),
}

/// Numbers in another unit: times this, or divided by it without a rest.
#[derive(Debug)]
pub(crate) struct Scaled {
    pub(crate) values: ScalarBuffer<i64>,
    pub(crate) times: i64,
    pub(crate) per: i64,
    /// Of an `int`.
    pub(crate) narrow: bool,
}

#[derive(Debug)]
pub(crate) struct Decimal<T: ArrowNativeType> {
    pub(crate) values: ScalarBuffer<T>,
    /// Of a fixed; else the bytes have their length before them.
    pub(crate) size: Option<usize>,
    pub(crate) precision: u8,
    /// The first number with too many digits, if the type has such.
    pub(crate) beyond: Option<T>,
}

/// Which items a row has.
#[derive(Debug)]
pub(crate) enum Ranges {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
    Fixed(usize),
}

#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) ranges: Ranges,
    pub(crate) keys: Source,
    /// For errors.
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
    /// The number of null's branch, if the union has one.
    pub(crate) null: Option<i64>,
    /// That of the value's.
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
