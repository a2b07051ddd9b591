//! Decoding plan of a value, consisting of one operation for each part.

use std::sync::Arc;

use arrow_buffer::i256;
use samsarrow_wire::ShortBytes;

use super::skip::Skip;
use crate::builders::Shape;

/// Plan that converts values of one schema into rows of another. The numbers in operations are indexes of columns in
/// the vectors of [`Columns`](crate::builders::Columns).
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) root: Op,
    /// True if the value as a whole is of type bytes. Confluent's serializers write such values without a length.
    pub(crate) raw: bool,
}

/// One operation: reads a value as the writer has written it, and appends it as the reader's schema requires.
#[derive(Debug)]
pub(crate) enum Op {
    Null(usize),
    Boolean(usize),
    Int(usize),
    Long(usize),
    IntToLong(usize),
    IntToFloat(usize),
    IntToDouble(usize),
    LongToFloat(usize),
    LongToDouble(usize),
    Float(usize),
    FloatToDouble(usize),
    Double(usize),
    /// A time, and the factor that converts it to a finer unit.
    Finer(usize, i64),
    Time(Box<Time>),
    Bytes(usize),
    Text(usize),
    Fixed(usize, usize),
    /// 16 bytes that become the text of a UUID.
    Uuid(usize),
    Duration(usize),
    Decimal(Box<Decimal<i128>>),
    WideDecimal(Box<Decimal<i256>>),
    /// Enum that becomes text. For a symbol that the reader does not have, the error contains its name.
    Symbols(usize, Box<[Result<Symbol, Box<str>>]>),
    Keys(usize, Box<[Result<i32, Box<str>>]>),
    List(usize, Box<Items>),
    Map(usize, Box<Entries>),
    Record(usize, Box<[Field]>),
    /// Union of null and one other type, with the index of null.
    Nullable(i64, Box<(Shape, Op)>),
    Union(Box<[Op]>),
    /// Value of one union member. All other members become null.
    Member(usize, Box<(Op, Box<[Shape]>)>),
    /// Appends a null without reading anything.
    PushNull(Box<Shape>),
    /// Appends the reader's default, without reading from the value.
    Default(Box<(Box<[u8]>, Op)>),
    Skip(Skip),
    /// Value that is nested deeper than this number of levels, which is an error.
    Deeper(usize),
    /// Value that the reader's schema cannot represent, which is an error with this reason.
    Never(Arc<str>),
}

/// Text of a symbol, padded with zeros. A copy of fixed size then needs no function call (see `ShortBytes`).
#[derive(Debug)]
pub(crate) struct Symbol {
    padded: Box<[u8]>,
    len: usize,
}

impl Symbol {
    pub(crate) fn new(symbol: &str) -> Symbol {
        Self::of_bytes(symbol.as_bytes())
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Symbol {
        let mut padded = bytes.to_vec();
        padded.resize(padded.len() + 16, 0);
        Symbol { padded: padded.into(), len: bytes.len() }
    }

    #[inline(always)]
    pub(crate) fn piece(&self) -> ShortBytes<'_> {
        ShortBytes::of(&self.padded, 0, self.len).unwrap_or(ShortBytes::from(&[][..]))
    }
}

/// Field of the writer's record, or field that only the reader has.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: Arc<str>,
    pub(crate) op: Op,
}

#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) item: Op,
    pub(crate) bound: Bound,
}

#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) keys: usize,
    pub(crate) value: Op,
    pub(crate) bound: Bound,
}

/// Time of day: an integer below `end` in the writer's unit, which is converted to the reader's unit.
#[derive(Debug)]
pub(crate) struct Time {
    /// True if the writer's type is `int`, false if it is `long`.
    pub(crate) of_int: bool,
    /// True if the column has 32-bit integers, false for 64 bits.
    pub(crate) int: bool,
    pub(crate) to: usize,
    /// Number of the reader's units in one of the writer's units.
    pub(crate) factor: i64,
    pub(crate) end: i64,
}

/// Minimum size of an encoded item, and number of bytes that an item occupies in its columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) min: usize,
    pub(crate) growth: u64,
}

#[derive(Debug)]
pub(crate) struct Decimal<T> {
    pub(crate) to: usize,
    /// Size of the fixed; `None` for bytes, which have a length prefix.
    pub(crate) size: Option<usize>,
    pub(crate) precision: u8,
    /// The smallest number with too many digits.
    pub(crate) beyond: T,
}

impl Op {
    /// If some values cannot be read because a branch or symbol has no counterpart in the reader's schema, returns the
    /// reason.
    pub(crate) fn missing_counterpart(&self) -> Option<String> {
        let gone = |symbol: &str| format!("the reader's enum has no symbol {symbol}, and no default");
        match self {
            Op::Never(reason) => Some(reason.to_string()),
            Op::Symbols(_, symbols) => symbols.iter().find_map(|symbol| Some(gone(symbol.as_ref().err()?))),
            Op::Keys(_, symbols) => symbols.iter().find_map(|symbol| Some(gone(symbol.as_ref().err()?))),
            Op::List(_, items) => items.item.missing_counterpart(),
            Op::Map(_, entries) => entries.value.missing_counterpart(),
            Op::Record(_, fields) => fields.iter().find_map(|field| field.op.missing_counterpart()),
            Op::Nullable(_, of) => of.1.missing_counterpart(),
            Op::Union(branches) => branches.iter().find_map(Op::missing_counterpart),
            Op::Member(_, of) => of.0.missing_counterpart(),
            Op::Default(of) => of.1.missing_counterpart(),
            _ => None,
        }
    }

    /// Returns the number of bytes that a value occupies in its columns. Bytes that are copied from the value are not
    /// counted.
    pub(crate) fn growth(&self) -> u64 {
        match self {
            Op::Null(_) | Op::Boolean(_) | Op::Skip(_) | Op::Never(_) => 1,
            Op::Duration(_) | Op::Decimal(_) => 16,
            Op::WideDecimal(_) => 32,
            Op::Uuid(_) => 40,
            Op::Fixed(_, size) => *size as u64,
            Op::Symbols(_, symbols) => 4 + symbols.iter().flatten().map(|symbol| symbol.len as u64).max().unwrap_or(0),
            Op::Record(_, fields) => fields.iter().map(|field| field.op.growth()).fold(1, u64::saturating_add),
            Op::Nullable(_, of) => shape_growth(&of.0).max(of.1.growth()),
            Op::Union(branches) => branches.iter().map(Op::growth).max().unwrap_or(1),
            Op::Member(_, of) => of.1.iter().map(shape_growth).fold(of.0.growth(), u64::saturating_add),
            Op::PushNull(shape) => shape_growth(shape),
            Op::Default(of) => (of.0.len() as u64).saturating_add(of.1.growth()),
            _ => 8,
        }
    }
}

/// Returns the number of bytes that a null occupies in its columns.
pub(crate) fn shape_growth(shape: &Shape) -> u64 {
    use crate::builders::Slot;
    match &shape.slot {
        Slot::Struct(_, fields) => fields.iter().map(shape_growth).fold(4, u64::saturating_add),
        Slot::Fixed(..) => match shape.data_type {
            arrow_schema::DataType::FixedSizeBinary(size) => 4 + u64::from(size.unsigned_abs()),
            _ => 8,
        },
        Slot::Decimal(_) | Slot::Interval(_) => 20,
        Slot::WideDecimal(_) => 36,
        Slot::Null(_) | Slot::Boolean(_) => 5,
        _ => 12,
    }
}
