//! Arrow types and column builders for Avro types.

use std::sync::Arc;

use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, IntervalUnit};

use crate::avro::schema::{Kind, Logical, Members, Node, Record, member_names, members};
use crate::builders::{Bytes, Columns, Count, Fixed, List, Shape, Slot, Values, add};
use crate::error::SchemaError;

/// Selects the Arrow type of enums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enums {
    /// `string`.
    #[default]
    Strings,
    /// `dictionary<int32, string>` with all symbols of the reader's schema.
    Dictionary,
}

/// Maximum precision of a 128-bit decimal.
pub(crate) const NARROW_DIGITS: u8 = 38;

/// Returns the type and slot of the column for an Avro type, and appends the column builders to `columns`.
pub(crate) fn shape(node: &Node, enums: Enums, columns: &mut Columns) -> Result<Shape, SchemaError> {
    let (data_type, slot) = match (&node.kind, node.logical) {
        (Kind::Null | Kind::Again(_) | Kind::Deeper(..), _) => {
            (DataType::Null, Slot::Null(add(&mut columns.nulls, Count::default())))
        }
        (Kind::Boolean, _) => (DataType::Boolean, Slot::Boolean(add(&mut columns.booleans, Values::default()))),
        (Kind::Int, logical) => (int_type(logical), Slot::Int(add(&mut columns.ints, Values::default()))),
        (Kind::Long, logical) => (long_type(logical), Slot::Long(add(&mut columns.longs, Values::default()))),
        (Kind::Float, _) => (DataType::Float32, Slot::Float(add(&mut columns.floats, Values::default()))),
        (Kind::Double, _) => (DataType::Float64, Slot::Double(add(&mut columns.doubles, Values::default()))),
        (_, Some(Logical::Decimal { precision, scale })) => decimal(precision, scale, columns),
        (Kind::Fixed(..), Some(Logical::Duration)) => {
            let at = add(&mut columns.intervals, Values::default());
            (DataType::Interval(IntervalUnit::MonthDayNano), Slot::Interval(at))
        }
        (Kind::Fixed(_, size), None) => {
            // The cast is lossless, because the parser has checked the size.
            (DataType::FixedSizeBinary(*size as i32), Slot::Fixed(add(&mut columns.fixed, Fixed::new(*size))))
        }
        (Kind::Bytes, _) => (DataType::Binary, bytes(columns)),
        (Kind::String | Kind::Fixed(..), _) => (DataType::Utf8, bytes(columns)),
        (Kind::Enum(of), _) => match enums {
            Enums::Strings => (DataType::Utf8, bytes(columns)),
            Enums::Dictionary => {
                let symbols = symbols(&of.symbols).map_err(|error| SchemaError::new("", error.to_string()))?;
                let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
                (kind, Slot::Symbols(add(&mut columns.ints, Values::default()), Box::new(symbols)))
            }
        },
        (Kind::Array(item), _) => {
            let items = shape(item, enums, columns)?;
            let field = field("item", item, &items);
            (DataType::List(field), Slot::List(add(&mut columns.lists, List::default()), Box::new(items)))
        }
        (Kind::Map(value), _) => {
            let keys = Shape { data_type: DataType::Utf8, slot: bytes(columns) };
            let values = shape(value, enums, columns)?;
            let key: FieldRef = Arc::new(Field::new("key", DataType::Utf8, false));
            let entries = DataType::Struct(Fields::from(vec![key, field("value", value, &values)]));
            let kind = DataType::Map(Arc::new(Field::new("entries", entries, false)), false);
            (kind, Slot::Map(add(&mut columns.lists, List::default()), Box::new([keys, values])))
        }
        (Kind::Record(record), _) => self::record(record, enums, columns)?,
        (Kind::Union(branches), _) => match members(branches) {
            (Members::Null, _) => (DataType::Null, Slot::Null(add(&mut columns.nulls, Count::default()))),
            (Members::One(one), _) => return shape(one, enums, columns),
            (Members::Many(members), _) => union(&members, enums, columns)?,
        },
    };
    Ok(Shape { data_type, slot })
}

/// Returns true if the column of an Avro type may have nulls.
pub(crate) fn nullable(node: &Node) -> bool {
    match &node.kind {
        Kind::Null | Kind::Deeper(..) => true,
        Kind::Union(branches) => members(branches).1,
        _ => false,
    }
}

fn field(name: &str, node: &Node, shape: &Shape) -> FieldRef {
    Arc::new(Field::new(name, shape.data_type.clone(), nullable(node)))
}

fn bytes(columns: &mut Columns) -> Slot {
    Slot::Bytes(add(&mut columns.bytes, Bytes::default()))
}

fn int_type(logical: Option<Logical>) -> DataType {
    match logical {
        Some(Logical::Date) => DataType::Date32,
        Some(Logical::Time(unit)) => DataType::Time32(unit),
        _ => DataType::Int32,
    }
}

fn long_type(logical: Option<Logical>) -> DataType {
    match logical {
        Some(Logical::Time(unit)) => DataType::Time64(unit),
        Some(Logical::Timestamp(unit)) => DataType::Timestamp(unit, Some("UTC".into())),
        Some(Logical::LocalTimestamp(unit)) => DataType::Timestamp(unit, None),
        _ => DataType::Int64,
    }
}

fn decimal(precision: u8, scale: i8, columns: &mut Columns) -> (DataType, Slot) {
    if precision <= NARROW_DIGITS {
        let at = add(&mut columns.decimals, Values::default());
        (DataType::Decimal128(precision, scale), Slot::Decimal(at))
    } else {
        let at = add(&mut columns.wide_decimals, Values::default());
        (DataType::Decimal256(precision, scale), Slot::WideDecimal(at))
    }
}

fn record(record: &Record, enums: Enums, columns: &mut Columns) -> Result<(DataType, Slot), SchemaError> {
    let mut shapes = Vec::new();
    let mut fields = Vec::new();
    for one in &record.fields {
        let below = shape(&one.node, enums, columns)?;
        fields.push(field(&one.name, &one.node, &below));
        shapes.push(below);
    }
    let at = add(&mut columns.structs, Count::default());
    Ok((DataType::Struct(fields.into()), Slot::Struct(at, shapes.into())))
}

/// Builds a struct with one column for each member of the union. In each row, at most one member is not null.
fn union(members: &[&Arc<Node>], enums: Enums, columns: &mut Columns) -> Result<(DataType, Slot), SchemaError> {
    let mut shapes = Vec::new();
    let mut fields: Vec<FieldRef> = Vec::new();
    for (name, member) in member_names(members).into_iter().zip(members) {
        let below = shape(member, enums, columns)?;
        fields.push(Arc::new(Field::new(name, below.data_type.clone(), true)));
        shapes.push(below);
    }
    let at = add(&mut columns.structs, Count::default());
    Ok((DataType::Struct(fields.into()), Slot::Struct(at, shapes.into())))
}

pub(crate) fn symbols(symbols: &[Box<str>]) -> Result<ArrayData, ArrowError> {
    let ends = symbols.iter().scan(0i32, |end, symbol| {
        *end = end.saturating_add(symbol.len() as i32);
        Some(*end)
    });
    let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
    let data = Buffer::from(symbols.concat().into_bytes());
    let data = ArrayData::builder(DataType::Utf8).add_buffer(ScalarBuffer::from(offsets).into_inner()).add_buffer(data);
    data.len(symbols.len()).build()
}
