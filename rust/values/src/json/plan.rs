//! Decoding plan of a value, which the type of its column determines.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};

use super::field_index::FieldIndex;
use super::schema::{is_base64, is_json, output};
use super::temporal::per_second;
use crate::arrow_types::NARROW_DIGITS;
use crate::avro::plan::shape_growth;
use crate::builders::{Bytes, Columns, Count, Fixed, List, Shape, Slot, Values, add};
use crate::error::SchemaError;

/// Maximum nesting of types.
const MAX_DEPTH: usize = 128;
pub(crate) const MAX_TYPES: usize = 100_000;

/// A column with the operation that decodes its values.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) shape: Shape,
    pub(crate) nullable: bool,
    /// Minimum number of bytes that an item of this type occupies in its columns.
    pub(crate) growth: u64,
}

/// Operation that decodes a value. The numbers are indexes of columns in the vectors of [`Columns`].
#[derive(Debug)]
pub(crate) enum Op {
    Null,
    Boolean(usize),
    Long(usize),
    Int(usize),
    /// Integers of other widths, and unsigned integers.
    SmallInt(SmallInt, usize),
    Double(usize),
    Float(usize),
    Text(usize),
    /// Value of any kind, which is stored as JSON text.
    Json(usize),
    Binary(usize),
    Fixed(usize, usize),
    Date(usize),
    Time(TimeUnit, usize),
    Timestamp(TimeUnit, usize),
    Decimal(Box<Decimal>),
    List(usize, Box<Node>),
    Map(usize, usize, Box<Node>),
    Struct(usize, Box<Struct>),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum SmallInt {
    Int8,
    Int16,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
}

#[derive(Debug)]
pub(crate) struct Decimal {
    pub(crate) to: usize,
    pub(crate) wide: bool,
    pub(crate) precision: u8,
    pub(crate) scale: i8,
    /// True if strings are the base64 encoding of the unscaled value, which Kafka Connect writes.
    pub(crate) base64: bool,
}

#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) names: FieldIndex,
    pub(crate) members: Box<[Member]>,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: Arc<str>,
    pub(crate) node: Node,
}

/// Creates the plan for a column, and appends the column builders to `columns`.
pub(crate) fn plan(root: &Field, columns: &mut Columns) -> Result<Node, SchemaError> {
    Planner { columns, types: 0 }.node(root, "", 0)
}

struct Planner<'a> {
    columns: &'a mut Columns,
    types: usize,
}

impl Planner<'_> {
    fn node(&mut self, field: &Field, path: &str, depth: usize) -> Result<Node, SchemaError> {
        self.types += 1;
        if self.types > MAX_TYPES || depth > MAX_DEPTH {
            let text = format!("a schema has at most {MAX_TYPES} types, nested {MAX_DEPTH} deep");
            return Err(SchemaError::new(path, text));
        }
        let (op, slot, data_type) = self.typed(field, path, depth)?;
        let shape = Shape { data_type, slot };
        let growth = shape_growth(&shape);
        Ok(Node { op, shape, nullable: field.is_nullable(), growth })
    }

    fn typed(&mut self, field: &Field, path: &str, depth: usize) -> Result<(Op, Slot, DataType), SchemaError> {
        use DataType as T;
        let kind = field.data_type();
        let (op, slot) = match kind {
            T::Null => (Op::Null, Slot::Null(add(&mut self.columns.nulls, Count::default()))),
            T::Boolean => {
                let at = add(&mut self.columns.booleans, Values::default());
                (Op::Boolean(at), Slot::Boolean(at))
            }
            T::Int64 => self.long(Op::Long),
            T::UInt64 => self.long(|at| Op::SmallInt(SmallInt::UInt64, at)),
            T::Time64(unit @ (TimeUnit::Microsecond | TimeUnit::Nanosecond)) => self.long(|at| Op::Time(*unit, at)),
            T::Timestamp(unit, _) => self.long(|at| Op::Timestamp(*unit, at)),
            T::Int32 => self.int(Op::Int),
            T::UInt32 => self.int(|at| Op::SmallInt(SmallInt::UInt32, at)),
            T::Date32 => self.int(Op::Date),
            T::Time32(unit @ (TimeUnit::Second | TimeUnit::Millisecond)) => self.int(|at| Op::Time(*unit, at)),
            T::Int16 | T::UInt16 => {
                let at = add(&mut self.columns.shorts, Values::default());
                let whole = if *kind == T::Int16 { SmallInt::Int16 } else { SmallInt::UInt16 };
                (Op::SmallInt(whole, at), Slot::Short(at))
            }
            T::Int8 | T::UInt8 => {
                let at = add(&mut self.columns.tiny, Values::default());
                let whole = if *kind == T::Int8 { SmallInt::Int8 } else { SmallInt::UInt8 };
                (Op::SmallInt(whole, at), Slot::Tiny(at))
            }
            T::Float64 => {
                let at = add(&mut self.columns.doubles, Values::default());
                (Op::Double(at), Slot::Double(at))
            }
            T::Float32 => {
                let at = add(&mut self.columns.floats, Values::default());
                (Op::Float(at), Slot::Float(at))
            }
            T::Utf8 | T::LargeUtf8 | T::Utf8View => {
                let at = self.bytes();
                let op = if is_json(field) { Op::Json(at) } else { Op::Text(at) };
                return Ok((op, Slot::Bytes(at), T::Utf8));
            }
            T::Binary | T::LargeBinary | T::BinaryView => {
                let at = self.bytes();
                return Ok((Op::Binary(at), Slot::Bytes(at), T::Binary));
            }
            T::FixedSizeBinary(size) => {
                let size = usize::try_from(*size).unwrap_or(0);
                let at = add(&mut self.columns.fixed, Fixed::new(size));
                (Op::Fixed(at, size), Slot::Fixed(at))
            }
            T::Decimal128(precision, scale) | T::Decimal256(precision, scale) => {
                self.decimal(field, *precision, *scale, path)?
            }
            T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) => {
                return self.list(item, path, depth);
            }
            T::Map(entries, _) => return self.map(entries, path, depth),
            T::Struct(fields) => return self.members(fields, path, depth),
            other => {
                let text = format!("{other} cannot be read from JSON: docs/values.md has the types that can");
                return Err(SchemaError::new(path, text));
            }
        };
        Ok((op, slot, kind.clone()))
    }

    fn long(&mut self, op: impl Fn(usize) -> Op) -> (Op, Slot) {
        let at = add(&mut self.columns.longs, Values::default());
        (op(at), Slot::Long(at))
    }

    fn int(&mut self, op: impl Fn(usize) -> Op) -> (Op, Slot) {
        let at = add(&mut self.columns.ints, Values::default());
        (op(at), Slot::Int(at))
    }

    fn bytes(&mut self) -> usize {
        add(&mut self.columns.bytes, Bytes::default())
    }

    fn decimal(&mut self, field: &Field, precision: u8, scale: i8, path: &str) -> Result<(Op, Slot), SchemaError> {
        let wide = matches!(field.data_type(), DataType::Decimal256(..));
        if !wide && precision > NARROW_DIGITS || precision > 76 {
            return Err(SchemaError::new(path, format!("a decimal of {precision} digits, and at most 76 have a type")));
        }
        let (to, slot) = if wide {
            let at = add(&mut self.columns.wide_decimals, Values::default());
            (at, Slot::WideDecimal(at))
        } else {
            let at = add(&mut self.columns.decimals, Values::default());
            (at, Slot::Decimal(at))
        };
        Ok((Op::Decimal(Box::new(Decimal { to, wide, precision, scale, base64: is_base64(field) })), slot))
    }

    fn list(&mut self, item: &FieldRef, path: &str, depth: usize) -> Result<(Op, Slot, DataType), SchemaError> {
        let node = self.node(item, path, depth + 1)?;
        let kind = DataType::List(output(item, &node.shape.data_type));
        let (at, shape) = (add(&mut self.columns.lists, List::default()), node.shape.clone());
        Ok((Op::List(at, Box::new(node)), Slot::List(at, Box::new(shape)), kind))
    }

    fn map(&mut self, entries: &FieldRef, path: &str, depth: usize) -> Result<(Op, Slot, DataType), SchemaError> {
        let DataType::Struct(fields) = entries.data_type() else {
            return Err(SchemaError::new(path, "the map has no keys and values"));
        };
        let [key, value] = &**fields else {
            return Err(SchemaError::new(path, "the map has no keys and values"));
        };
        if !matches!(key.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
            let text = format!("the keys of a map are names, and so string, not {}", key.data_type());
            return Err(SchemaError::new(path, text));
        }
        let keys = self.bytes();
        let keys_shape = Shape { data_type: DataType::Utf8, slot: Slot::Bytes(keys) };
        let node = self.node(value, path, depth + 1)?;
        let key = Arc::new(Field::new(key.name(), DataType::Utf8, false));
        let fields = Fields::from(vec![key, output(value, &node.shape.data_type)]);
        let entries = Field::new(entries.name(), DataType::Struct(fields), false);
        let shapes = Box::new([keys_shape, node.shape.clone()]);
        let at = add(&mut self.columns.lists, List::default());
        let kind = DataType::Map(Arc::new(entries), false);
        Ok((Op::Map(at, keys, Box::new(node)), Slot::Map(at, shapes), kind))
    }

    fn members(&mut self, fields: &Fields, path: &str, depth: usize) -> Result<(Op, Slot, DataType), SchemaError> {
        let (mut members, mut kinds, mut shapes) = (Vec::new(), Vec::new(), Vec::new());
        let mut known = std::collections::HashSet::new();
        for field in fields {
            let path = join(path, field.name());
            if !known.insert(field.name()) {
                return Err(SchemaError::new(&path, "a struct has two fields of this name"));
            }
            let node = self.node(field, &path, depth + 1)?;
            kinds.push(output(field, &node.shape.data_type));
            shapes.push(node.shape.clone());
            members.push(Member { name: field.name().as_str().into(), node });
        }
        let names = FieldIndex::new(members.iter().map(|member| &*member.name));
        let at = add(&mut self.columns.structs, Count::default());
        let op = Op::Struct(at, Box::new(Struct { names, members: members.into() }));
        Ok((op, Slot::Struct(at, shapes.into()), DataType::Struct(kinds.into())))
    }
}

/// Returns the path of the field `name` below `path`.
pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

impl SmallInt {
    pub(crate) fn range(self) -> (std::ops::RangeInclusive<i128>, &'static str) {
        match self {
            SmallInt::Int8 => (i8::MIN.into()..=i8::MAX.into(), "int8"),
            SmallInt::Int16 => (i16::MIN.into()..=i16::MAX.into(), "int16"),
            SmallInt::UInt8 => (0..=u8::MAX.into(), "uint8"),
            SmallInt::UInt16 => (0..=u16::MAX.into(), "uint16"),
            SmallInt::UInt32 => (0..=u32::MAX.into(), "uint32"),
            SmallInt::UInt64 => (0..=u64::MAX.into(), "uint64"),
        }
    }
}

/// Returns true if `value`, in the given unit, is a valid time of day.
pub(crate) fn is_time_of_day(value: i64, unit: TimeUnit) -> bool {
    (0..86_400 * per_second(unit)).contains(&value)
}
