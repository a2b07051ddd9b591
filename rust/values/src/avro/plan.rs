//! What to do with the bytes of a value, step by step.

use std::sync::Arc;

use arrow_buffer::i256;
use samsarrow_wire::ShortBytes;

use super::skip::Skip;
use crate::builders::Shape;

/// How values of one schema become rows of another. Numbers are places among the columns of a kind.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) root: Op,
    /// The writer's whole value is bytes, to which Confluent's serializers give no length.
    pub(crate) raw: bool,
}

/// One step: reads a value as the writer wrote it, and appends what the reader wants of it.
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
    /// A time in a finer unit: so many of it.
    Finer(usize, i64),
    Time(Box<Time>),
    Bytes(usize),
    Text(usize),
    Fixed(usize, usize),
    /// 16 bytes as a UUID's text.
    Uuid(usize),
    Duration(usize),
    Decimal(Box<Decimal<i128>>),
    WideDecimal(Box<Decimal<i256>>),
    /// An enum as text, or as the numbers of the reader's symbols.
    Symbols(usize, Box<[Result<Symbol, Box<str>>]>),
    Keys(usize, Box<[Result<i32, Box<str>>]>),
    List(usize, Box<Items>),
    Map(usize, Box<Entries>),
    Record(usize, Box<[Field]>),
    /// A union of null and this; which branch is null.
    Nullable(i64, Box<(Shape, Op)>),
    Union(Box<[Op]>),
    /// A union's value goes to one member, and null to all others.
    Member(usize, Box<(Op, Box<[Shape]>)>),
    /// Nothing is read: a null is.
    PushNull(Box<Shape>),
    /// Nothing is read: the reader's default, as a value of its own.
    Default(Box<(Box<[u8]>, Op)>),
    Skip(Skip),
    /// More than so many of its kind are around it.
    Deeper(usize),
    /// The reader has no place for this.
    Never(Arc<str>),
}

/// A symbol's text, with zeros behind it: a copy of a fixed size needs no call (see `ShortBytes`).
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

/// A field of the writer's record, or one that only the reader has.
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

/// A time of day: a number of the writer's unit that is below `end`, in the reader's unit.
#[derive(Debug)]
pub(crate) struct Time {
    /// True if the writer's number is an `int`.
    pub(crate) of_int: bool,
    /// True if its place is among numbers of 32 bits, else it is among those of 64.
    pub(crate) int: bool,
    pub(crate) to: usize,
    /// The number of the reader's units in one of the writer's.
    pub(crate) factor: i64,
    pub(crate) end: i64,
}

/// What an item takes at least, and what it becomes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) min: usize,
    pub(crate) growth: u64,
}

#[derive(Debug)]
pub(crate) struct Decimal<T> {
    pub(crate) to: usize,
    /// Of a fixed; else the bytes have their length before them.
    pub(crate) size: Option<usize>,
    pub(crate) precision: u8,
    /// The first number with too many digits.
    pub(crate) beyond: T,
}

impl Op {
    /// Why some values cannot be read, if there are such: of a branch or a symbol that the reader has no place for.
    pub(crate) fn never(&self) -> Option<String> {
        let gone = |symbol: &str| format!("the reader's enum has no symbol {symbol}, and no default");
        match self {
            Op::Never(reason) => Some(reason.to_string()),
            Op::Symbols(_, symbols) => symbols.iter().find_map(|symbol| Some(gone(symbol.as_ref().err()?))),
            Op::Keys(_, symbols) => symbols.iter().find_map(|symbol| Some(gone(symbol.as_ref().err()?))),
            Op::List(_, items) => items.item.never(),
            Op::Map(_, entries) => entries.value.never(),
            Op::Record(_, fields) => fields.iter().find_map(|field| field.op.never()),
            Op::Nullable(_, of) => of.1.never(),
            Op::Union(branches) => branches.iter().find_map(Op::never),
            Op::Member(_, of) => of.0.never(),
            Op::Default(of) => of.1.never(),
            _ => None,
        }
    }

    /// Bytes of columns that a value becomes, but for what is copied from it.
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

/// Bytes that a null becomes.
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
