//! Binding of columns to the fields of a message: finds the column for each field, or reports why the message and the
//! columns do not match.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, DurationMicrosecondType, Float32Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, StructArray, UInt32Array, UInt64Array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, TimeUnit};
use samsarrow_wire::varint::{put_unsigned_varlong, put_varlong};

use super::super::Schema;
use super::super::arrow_types;
use super::super::framing;
use super::super::plan::Json;
use super::super::schema::{Field as Declared, Kind, Message, Pool, Scalar};
use super::source::{Field, Names, Rule, Source, Value};
use crate::error::SchemaError;
use crate::framing::Framing;
use crate::layout::{self, Blobs};

type Bound<T> = Result<T, SchemaError>;

/// Encodes rows as messages of one type.
#[derive(Debug, Clone)]
pub struct Writer {
    schema: Schema,
    message: usize,
    indexes: Vec<u8>,
    /// Encoded index of the message in the frames of AWS Glue Schema Registry.
    sorted: Vec<u8>,
    /// Encoded name of the message for Apicurio's frame; `None` for a nested message.
    name: Option<Vec<u8>>,
}

impl Writer {
    /// Creates a writer for a message, by default the first message of the file.
    ///
    /// # Errors
    /// Fails if the message does not exist, or if it is not declared in the file itself.
    pub fn new(schema: &Schema, message: Option<&str>) -> Result<Writer, SchemaError> {
        let id = schema.message(message)?;
        let Some(way) = way(&schema.pool, &schema.pool.own, id) else {
            return Err(SchemaError::new(
                "",
                "the message is not declared in the file itself, so no indexes lead to it",
            ));
        };
        let mut indexes = Vec::new();
        if way == [0] {
            indexes.push(0);
        } else {
            put_varlong(&mut indexes, way.len() as i64);
            way.iter().for_each(|index| put_varlong(&mut indexes, *index as i64));
        }
        let mut name = None;
        if let ([_], Some(message)) = (&*way, schema.pool.messages.get(id)) {
            framing::put_name(message.name.rsplit('.').next().unwrap_or_default(), name.get_or_insert_default());
        }
        let mut sorted = Vec::new();
        if let Some(message) = schema.pool.messages.get(id) {
            let at = schema.sorted_names().iter().position(|name| *name == message.name);
            put_unsigned_varlong(&mut sorted, at.unwrap_or_default() as u64);
        }
        Ok(Writer { schema: schema.clone(), message: id, indexes, sorted, name })
    }

    /// Returns the encoded message indexes, which Confluent's serializers write after the schema id.
    pub(crate) fn indexes(&self) -> &[u8] {
        &self.indexes
    }

    /// Returns the part of the frame between the schema id and the message. This part identifies the message within the
    /// schema.
    pub(crate) fn which(&self, framing: Framing) -> Result<&[u8], SchemaError> {
        match framing {
            Framing::Bare | Framing::Header => Ok(&[]),
            Framing::Apicurio => self.name.as_deref().ok_or_else(|| {
                SchemaError::new(
                    "",
                    "the message is declared within another, and Apicurio's frames name those of the file itself",
                )
            }),
            Framing::Glue => Ok(&self.sorted),
            _ => Ok(&self.indexes),
        }
    }

    /// Binds the fields of a struct column to the fields of the message.
    ///
    /// # Errors
    /// Fails if a column has no field or an unsuitable type, or if a required field has no column. The error contains
    /// the field.
    pub(crate) fn source(&self, column: &dyn Array) -> Result<Source, SchemaError> {
        let Some(rows) = column.as_struct_opt() else {
            return Err(SchemaError::new("", format!("a message is a struct, not {}", column.data_type())));
        };
        of_message(&self.schema.pool, self.message, rows, "")
    }
}

/// Returns the message indexes that lead to the message `id`, if it is one of the messages `among` or nested in one of
/// them.
fn way(pool: &Pool, among: &[usize], id: usize) -> Option<Vec<usize>> {
    among.iter().enumerate().find_map(|(at, one)| {
        if *one == id {
            return Some(vec![at]);
        }
        let mut way = way(pool, &pool.messages.get(*one)?.nested, id)?;
        way.insert(0, at);
        Some(way)
    })
}

fn of_message(pool: &Pool, id: usize, rows: &StructArray, path: &str) -> Bound<Source> {
    let message = pool.messages.get(id).ok_or_else(|| SchemaError::new(path, "the message is missing"))?;
    for column in rows.column_names() {
        if !message.fields.iter().any(|field| *field.name == *column) {
            return Err(SchemaError::new(&join(path, column), format!("message {} has no such field", message.name)));
        }
    }
    let mut declared: Vec<&Declared> = message.fields.iter().collect();
    declared.sort_by_key(|field| field.number);
    let mut source = Source { fields: Vec::new(), oneofs: Vec::new() };
    for field in declared {
        let path = join(path, &field.name);
        let Some(column) = rows.column_by_name(&field.name) else {
            if field.required {
                return Err(SchemaError::new(&path, "the field is required, and has no column"));
            }
            continue;
        };
        if let Some(oneof) = field.oneof {
            if source.oneofs.len() <= oneof {
                source.oneofs.resize_with(oneof + 1, Vec::new);
            }
            if let Some(members) = source.oneofs.get_mut(oneof) {
                members.push(source.fields.len());
            }
        }
        source.fields.push(of_field(pool, field, column, &path)?);
    }
    Ok(source)
}

fn of_field(pool: &Pool, field: &Declared, column: &ArrayRef, path: &str) -> Bound<Field> {
    let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let make = |tag, nulls, item_nulls, rule, value| Field {
        name: Arc::clone(&field.name),
        tag,
        nulls,
        item_nulls,
        rule,
        value,
    };
    if !field.repeated {
        let value = self::value(pool, field.kind, column, path)?;
        let rule = match (field.required, field.presence || field.default.is_some()) {
            (true, _) => Rule::Required,
            (_, true) => Rule::Present,
            _ => Rule::Implicit,
        };
        return Ok(make(field.number << 3 | value.wire(), nulls, None, rule, value));
    }
    if let Some(entry) = entry(pool, field.kind) {
        return map(pool, field, entry, column, nulls, path);
    }
    let Some((ranges, items)) = layout::items(column) else { return Err(unfit("a repeated field", column, path)) };
    let value = self::value(pool, field.kind, items, path)?;
    let (wire, rule) = match value.wire() {
        wire @ (0 | 1 | 5) if !field.packed => (wire, Rule::List(ranges)),
        0 | 1 | 5 => (2, Rule::Packed(ranges)),
        wire => (wire, Rule::List(ranges)),
    };
    Ok(make(field.number << 3 | wire, nulls, item_nulls(items), rule, value))
}

fn item_nulls(items: &ArrayRef) -> Option<NullBuffer> {
    items.logical_nulls().filter(|nulls| nulls.null_count() > 0)
}

/// Returns the entry message, if the field is a map.
fn entry(pool: &Pool, kind: Kind) -> Option<&Message> {
    match kind {
        Kind::Message(id) => pool.messages.get(id).filter(|message| message.entry),
        _ => None,
    }
}

fn map(
    pool: &Pool,
    field: &Declared,
    entry: &Message,
    column: &ArrayRef,
    nulls: Option<NullBuffer>,
    path: &str,
) -> Bound<Field> {
    let (Some(map), [key, of]) = (column.as_map_opt(), &*entry.fields) else {
        return Err(unfit("a map", column, path));
    };
    let offsets: OffsetBuffer<i32> = map.offsets().clone();
    let keys = self::value(pool, key.kind, map.keys(), path)?;
    let keys = Field {
        name: Arc::clone(&key.name),
        tag: 1 << 3 | keys.wire(),
        nulls: None,
        item_nulls: None,
        rule: Rule::Present,
        value: keys,
    };
    let value = self::value(pool, of.kind, map.values(), path)?;
    let rule = Rule::Map(offsets, Box::new(keys));
    let (name, tag) = (Arc::clone(&field.name), field.number << 3 | 2);
    Ok(Field { name, tag, nulls, item_nulls: item_nulls(map.values()), rule, value })
}

fn value(pool: &Pool, kind: Kind, column: &ArrayRef, path: &str) -> Bound<Value> {
    if let Some(dictionary) = column.as_any_dictionary_opt() {
        let value = self::value(pool, kind, dictionary.values(), path)?;
        // The dictionary is empty, so all rows are null and are not encoded.
        if dictionary.values().is_empty() {
            return Ok(value);
        }
        return Ok(Value::Keys(dictionary.normalized_keys().into(), Box::new(value)));
    }
    match kind {
        Kind::Scalar(scalar) => of_scalar(scalar, column).ok_or_else(|| unfit(scalar.name(), column, path)),
        Kind::Enum(id) => {
            let of = pool.enums.get(id).ok_or_else(|| SchemaError::new(path, "the enum is missing"))?;
            let numbers = of.values.iter().map(|(name, number)| (name.clone(), *number)).collect();
            let default = of.values.first().map_or(0, |(_, number)| *number);
            let names = Names { name: Arc::clone(&of.name), numbers, default };
            match Blobs::texts(column) {
                Some(texts) => Ok(Value::Name(texts, names)),
                None => ints(column).map(Value::Int).ok_or_else(|| unfit("an enum", column, path)),
            }
        }
        Kind::Message(id) | Kind::Group(id) => {
            let message = pool.messages.get(id).ok_or_else(|| SchemaError::new(path, "the message is missing"))?;
            // A recursive message at the depth at which `decode_values` stopped. All rows are null and are not encoded.
            if *column.data_type() == DataType::Null {
                let source = Source { fields: Vec::new(), oneofs: Vec::new() };
                return Ok(if matches!(kind, Kind::Group(_)) { Value::Group(source) } else { Value::Message(source) });
            }
            if let Some(known) = known(message, column) {
                if matches!(kind, Kind::Group(_)) {
                    return Err(SchemaError::new(path, arrow_types::delimited(&message.name)));
                }
                return known.ok_or_else(|| unfit(&message.name, column, path));
            }
            let Some(rows) = column.as_struct_opt() else { return Err(unfit(&message.name, column, path)) };
            let source = of_message(pool, id, rows, path)?;
            Ok(if matches!(kind, Kind::Group(_)) { Value::Group(source) } else { Value::Message(source) })
        }
    }
}

/// Binds a column to a well-known message type. Returns `None` for other messages, and `Some(None)` if the type of the
/// column is not suitable.
fn known(message: &Message, column: &ArrayRef) -> Option<Option<Value>> {
    let json = |what| Blobs::texts(column).map(|texts| Value::Json(texts, what));
    Some(match message.name.strip_prefix("google.protobuf.")? {
        "Timestamp" => instants(column).map(|(times, per_second)| Value::Timestamp(times, per_second)),
        "Duration" => column
            .as_primitive_opt::<DurationMicrosecondType>()
            .map(|times| Value::Duration(times.reinterpret_cast::<Int64Type>())),
        "Struct" => json(Json::Struct),
        "Value" => json(Json::Value),
        "ListValue" => json(Json::List),
        "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value" | "UInt32Value" | "BoolValue"
        | "StringValue" | "BytesValue" => match message.fields.first()?.kind {
            Kind::Scalar(scalar) => of_scalar(scalar, column).map(|value| {
                let (tag, rule) = (1 << 3 | value.wire(), Rule::Implicit);
                Value::Wrapper(Box::new(Field {
                    name: "value".into(),
                    tag,
                    nulls: None,
                    item_nulls: None,
                    rule,
                    value,
                }))
            }),
            _ => None,
        },
        _ => return None,
    })
}

fn of_scalar(scalar: Scalar, column: &ArrayRef) -> Option<Value> {
    Some(match scalar {
        Scalar::Int32 => Value::Int(ints(column)?),
        Scalar::Sint32 => Value::ZigzagInt(ints(column)?),
        Scalar::Sfixed32 => Value::FixedInt(ints(column)?),
        Scalar::Int64 => Value::Long(longs(column)?),
        Scalar::Sint64 => Value::ZigzagLong(longs(column)?),
        Scalar::Sfixed64 => Value::FixedLong(longs(column)?),
        Scalar::Uint32 => Value::Uint(uints(column)?),
        Scalar::Fixed32 => Value::FixedUint(uints(column)?),
        Scalar::Uint64 => Value::Ulong(ulongs(column)?),
        Scalar::Fixed64 => Value::FixedUlong(ulongs(column)?),
        Scalar::Float => Value::Float(column.as_primitive_opt()?.clone()),
        Scalar::Double => Value::Double(doubles(column)?),
        Scalar::Bool => Value::Boolean(column.as_boolean_opt()?.clone()),
        Scalar::String => Value::Bytes(Blobs::texts(column)?),
        Scalar::Bytes => Value::Bytes(Blobs::bytes(column)?),
    })
}

fn ints(column: &ArrayRef) -> Option<Int32Array> {
    match column.data_type() {
        DataType::Int8 => Some(column.as_primitive::<Int8Type>().unary(i32::from)),
        DataType::Int16 => Some(column.as_primitive::<Int16Type>().unary(i32::from)),
        _ => column.as_primitive_opt().cloned(),
    }
}

fn longs(column: &ArrayRef) -> Option<Int64Array> {
    match column.data_type() {
        DataType::Int32 => Some(column.as_primitive::<Int32Type>().unary(i64::from)),
        DataType::Int8 | DataType::Int16 => Some(ints(column)?.unary(i64::from)),
        DataType::UInt32 => Some(column.as_primitive::<UInt32Type>().unary(i64::from)),
        _ => column.as_primitive_opt().cloned(),
    }
}

fn uints(column: &ArrayRef) -> Option<UInt32Array> {
    match column.data_type() {
        DataType::UInt8 => Some(column.as_primitive::<UInt8Type>().unary(u32::from)),
        DataType::UInt16 => Some(column.as_primitive::<UInt16Type>().unary(u32::from)),
        _ => column.as_primitive_opt().cloned(),
    }
}

fn ulongs(column: &ArrayRef) -> Option<UInt64Array> {
    match column.data_type() {
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => Some(uints(column)?.unary(u64::from)),
        _ => column.as_primitive_opt::<UInt64Type>().cloned(),
    }
}

fn doubles(column: &ArrayRef) -> Option<Float64Array> {
    match column.data_type() {
        DataType::Float32 => Some(column.as_primitive::<Float32Type>().unary(f64::from)),
        _ => column.as_primitive_opt().cloned(),
    }
}

/// Returns the timestamps of a column, and the number of its units per second. A column without a time zone is not
/// suitable, because its timestamps do not determine instants.
fn instants(column: &ArrayRef) -> Option<(Int64Array, i64)> {
    fn times<T: ArrowPrimitiveType<Native = i64>>(column: &ArrayRef) -> Int64Array {
        column.as_primitive::<T>().reinterpret_cast::<Int64Type>()
    }
    let DataType::Timestamp(unit, Some(_)) = column.data_type() else { return None };
    Some(match unit {
        TimeUnit::Second => (times::<TimestampSecondType>(column), 1),
        TimeUnit::Millisecond => (times::<TimestampMillisecondType>(column), 1_000),
        TimeUnit::Microsecond => (times::<TimestampMicrosecondType>(column), 1_000_000),
        TimeUnit::Nanosecond => (times::<TimestampNanosecondType>(column), 1_000_000_000),
    })
}

fn unfit(what: &str, column: &ArrayRef, path: &str) -> SchemaError {
    let advice = match column.data_type() {
        DataType::Timestamp(_, None) if what == "google.protobuf.Timestamp" => {
            ": it has no time zone, so cast it to one that has"
        }
        _ => "",
    };
    SchemaError::new(path, format!("a column of {} cannot be written as {what}{advice}", column.data_type()))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
