//! Columns for types that do not become structs: scalars, enums, and messages with their own Arrow types.

use arrow_schema::{DataType, TimeUnit};

use super::arrow_types::{Builder, Built, FieldColumn};
use super::plan::{Absent, Json, Names, Op, Wrapper};
use super::schema::{Enum, Field, Kind, Literal, Message, Scalar};
use crate::arrow_types::{Enums, symbols};
use crate::avro::plan::Symbol;
use crate::builders::{Bytes, Columns, Shape, Slot, Values, add};
use crate::error::SchemaError;

impl<'a> Builder<'a> {
    pub(super) fn scalar(&mut self, scalar: Scalar) -> Shape {
        let columns = &mut *self.columns;
        let (data_type, slot) = match scalar {
            Scalar::Double => (DataType::Float64, Slot::Double(add(&mut columns.doubles, Values::default()))),
            Scalar::Float => (DataType::Float32, Slot::Float(add(&mut columns.floats, Values::default()))),
            Scalar::Bool => (DataType::Boolean, Slot::Boolean(add(&mut columns.booleans, Values::default()))),
            Scalar::String => (DataType::Utf8, Slot::Bytes(add(&mut columns.bytes, Bytes::default()))),
            Scalar::Bytes => (DataType::Binary, Slot::Bytes(add(&mut columns.bytes, Bytes::default()))),
            Scalar::Int32 | Scalar::Sint32 | Scalar::Sfixed32 => {
                (DataType::Int32, Slot::Int(add(&mut columns.ints, Values::default())))
            }
            // Unsigned integers are stored as signed integers with the same bit pattern.
            Scalar::Uint32 | Scalar::Fixed32 => {
                (DataType::UInt32, Slot::Int(add(&mut columns.ints, Values::default())))
            }
            Scalar::Int64 | Scalar::Sint64 | Scalar::Sfixed64 => {
                (DataType::Int64, Slot::Long(add(&mut columns.longs, Values::default())))
            }
            Scalar::Uint64 | Scalar::Fixed64 => {
                (DataType::UInt64, Slot::Long(add(&mut columns.longs, Values::default())))
            }
        };
        Shape { data_type, slot }
    }

    pub(super) fn scalar_op(&self, kind: Kind, slot: &Slot) -> Built<Op> {
        let scalar = match kind {
            Kind::Scalar(scalar) => scalar,
            Kind::Enum(id) => {
                let of = self.pool.enums.get(id).ok_or_else(|| SchemaError::new("", "the enum is missing"))?;
                return Ok(match slot {
                    Slot::Symbols(at, _) => Op::Key(*at, Box::new(keys(of))),
                    Slot::Bytes(at) => Op::Name(*at, Box::new(names(of))),
                    _ => Op::Skip,
                });
            }
            _ => return Ok(Op::Skip),
        };
        Ok(match (scalar, slot) {
            (Scalar::Int32 | Scalar::Uint32, Slot::Int(at)) => Op::Int(*at),
            (Scalar::Sint32, Slot::Int(at)) => Op::ZigzagInt(*at),
            (Scalar::Fixed32 | Scalar::Sfixed32, Slot::Int(at)) => Op::FixedInt(*at),
            (Scalar::Int64 | Scalar::Uint64, Slot::Long(at)) => Op::Long(*at),
            (Scalar::Sint64, Slot::Long(at)) => Op::ZigzagLong(*at),
            (Scalar::Fixed64 | Scalar::Sfixed64, Slot::Long(at)) => Op::FixedLong(*at),
            (Scalar::Float, Slot::Float(at)) => Op::Float(*at),
            (Scalar::Double, Slot::Double(at)) => Op::Double(*at),
            (Scalar::Bool, Slot::Boolean(at)) => Op::Boolean(*at),
            (Scalar::String, Slot::Bytes(at)) => Op::Text(*at),
            (Scalar::Bytes, Slot::Bytes(at)) => Op::Bytes(*at),
            _ => Op::Skip,
        })
    }

    pub(super) fn enumeration(&mut self, of: &Enum, field: &Field, path: &str) -> Built<FieldColumn> {
        let number = match (&field.default, of.values.first()) {
            (Some(Literal::Integer(number)), _) => *number as i32,
            (_, Some((_, number))) => *number,
            (_, None) => 0,
        };
        let (shape, default) = match self.enums {
            Enums::Strings => {
                let at = add(&mut self.columns.bytes, Bytes::default());
                let name = of.values.iter().find(|(_, other)| *other == number).map_or("", |(name, _)| name);
                (Shape { data_type: DataType::Utf8, slot: Slot::Bytes(at) }, Absent::Text(at, Symbol::new(name)))
            }
            Enums::Dictionary => {
                let at = add(&mut self.columns.ints, Values::default());
                let all: Vec<Box<str>> = of.values.iter().map(|(name, _)| name.clone()).collect();
                let all = symbols(&all).map_err(|error| SchemaError::new(path, error.to_string()))?;
                let data_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
                let key = keys(of).get(number).copied().unwrap_or(0);
                (Shape { data_type, slot: Slot::Symbols(at, Box::new(all)) }, Absent::Int(at, key))
            }
        };
        let op = self.scalar_op(field.kind, &shape.slot)?;
        Ok(FieldColumn { shape, op, default })
    }

    /// Builds the column for a well-known message that has its own Arrow type. Returns `None` for other messages.
    pub(super) fn known(&mut self, message: &'a Message) -> Option<Built<FieldColumn>> {
        let name = message.name.strip_prefix("google.protobuf.")?;
        let json = |columns: &mut Columns, what| {
            let at = add(&mut columns.bytes, Bytes::default());
            (Shape { data_type: DataType::Utf8, slot: Slot::Bytes(at) }, Op::Json(at, what))
        };
        let (shape, op) = match name {
            "Timestamp" => {
                let at = add(&mut self.columns.longs, Values::default());
                let data_type = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
                (Shape { data_type, slot: Slot::Long(at) }, Op::Timestamp(at))
            }
            "Duration" => {
                let at = add(&mut self.columns.longs, Values::default());
                let data_type = DataType::Duration(TimeUnit::Microsecond);
                (Shape { data_type, slot: Slot::Long(at) }, Op::Duration(at))
            }
            "Struct" => json(self.columns, Json::Struct),
            "Value" => json(self.columns, Json::Value),
            "ListValue" => json(self.columns, Json::List),
            "DoubleValue" | "FloatValue" | "Int64Value" | "UInt64Value" | "Int32Value" | "UInt32Value"
            | "BoolValue" | "StringValue" | "BytesValue" => {
                let field = message.fields.first()?;
                let Kind::Scalar(scalar) = field.kind else { return None };
                let shape = self.scalar(scalar);
                let op = match self.scalar_op(field.kind, &shape.slot) {
                    Ok(op) => op,
                    Err(error) => return Some(Err(error)),
                };
                let absent = default(&shape.slot, None);
                let tag = field.number << 3 | scalar.wire();
                (shape, Op::Wrapper(Box::new(Wrapper { tag, op, absent })))
            }
            _ => return None,
        };
        Some(Ok(FieldColumn { shape, op, default: Absent::Empty(0) }))
    }
}

fn names(of: &Enum) -> Names<Symbol> {
    Names::new(of.values.iter().map(|(name, number)| (*number, Symbol::new(name))))
}

/// Returns the dictionary index for the number of each enum value.
fn keys(of: &Enum) -> Names<i32> {
    Names::new(of.values.iter().zip(0..).map(|((_, number), key)| (*number, key)))
}

pub(super) fn default(slot: &Slot, given: Option<&Literal>) -> Absent {
    match (slot, given) {
        (Slot::Int(at), Some(Literal::Integer(value))) => Absent::Int(*at, *value as i32),
        (Slot::Int(at), _) => Absent::Int(*at, 0),
        (Slot::Long(at), Some(Literal::Integer(value))) => Absent::Long(*at, *value),
        (Slot::Long(at), _) => Absent::Long(*at, 0),
        (Slot::Float(at), Some(Literal::Float(value))) => Absent::Float(*at, *value as f32),
        (Slot::Float(at), _) => Absent::Float(*at, 0.0),
        (Slot::Double(at), Some(Literal::Float(value))) => Absent::Double(*at, *value),
        (Slot::Double(at), _) => Absent::Double(*at, 0.0),
        (Slot::Boolean(at), Some(Literal::Bool(value))) => Absent::Boolean(*at, *value),
        (Slot::Boolean(at), _) => Absent::Boolean(*at, false),
        (Slot::Bytes(at), Some(Literal::Bytes(value))) => Absent::Text(*at, Symbol::of_bytes(value)),
        (Slot::Bytes(at), _) => Absent::Text(*at, Symbol::new("")),
        _ => Absent::Null,
    }
}
