//! Primitive types of Kafka's own serializers, which write numbers in big-endian order.

use arrow_array::Array;
use arrow_schema::DataType;
use samsarrow_wire::ShortBytes;

use crate::avro::encode::{self, Source};
use crate::avro::recursion::Named;
use crate::avro::schema::{Kind, Logical, Node};
use crate::builders::{Bytes, Columns, Shape, Slot, Values, add};
use crate::byte_reader::utf8;
use crate::error::{Reason, SchemaError, Step};

/// A primitive type of Kafka's own serializers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plain {
    /// UTF-8 text.
    String,
    /// Two bytes.
    Short,
    /// Four bytes.
    Int,
    /// Eight bytes.
    Long,
    /// Four bytes.
    Float,
    /// Eight bytes.
    Double,
    /// One byte, 0 or 1.
    Boolean,
    /// Text of a UUID, as Java's serializer writes it.
    Uuid,
}

impl Plain {
    /// Returns the type with the name `name`.
    pub fn from_name(name: &str) -> Option<Plain> {
        Some(match name {
            "string" => Plain::String,
            "short" => Plain::Short,
            "int" => Plain::Int,
            "long" => Plain::Long,
            "float" => Plain::Float,
            "double" => Plain::Double,
            "boolean" => Plain::Boolean,
            "uuid" => Plain::Uuid,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Plain::String => "string",
            Plain::Short => "short",
            Plain::Int => "int",
            Plain::Long => "long",
            Plain::Float => "float",
            Plain::Double => "double",
            Plain::Boolean => "boolean",
            Plain::Uuid => "uuid",
        }
    }

    pub(crate) fn shape(self, columns: &mut Columns) -> Shape {
        let (data_type, slot) = match self {
            Plain::Short => (DataType::Int16, Slot::Short(add(&mut columns.shorts, Values::default()))),
            Plain::Int => (DataType::Int32, Slot::Int(add(&mut columns.ints, Values::default()))),
            Plain::Long => (DataType::Int64, Slot::Long(add(&mut columns.longs, Values::default()))),
            Plain::Float => (DataType::Float32, Slot::Float(add(&mut columns.floats, Values::default()))),
            Plain::Double => (DataType::Float64, Slot::Double(add(&mut columns.doubles, Values::default()))),
            Plain::Boolean => (DataType::Boolean, Slot::Boolean(add(&mut columns.booleans, Values::default()))),
            Plain::String | Plain::Uuid => (DataType::Utf8, Slot::Bytes(add(&mut columns.bytes, Bytes::default()))),
        };
        Shape { data_type, slot }
    }

    #[inline]
    pub(crate) fn push(self, value: &[u8], slot: &Slot, columns: &mut Columns) -> Step {
        match slot {
            Slot::Bytes(at) => {
                utf8(value, ShortBytes::from(value))?;
                if self == Plain::Uuid && !is_uuid(value) {
                    return Err(Reason::Uuid.into());
                }
                columns.bytes[*at].push(ShortBytes::from(value))?;
            }
            Slot::Short(at) => columns.shorts[*at].push(i16::from_be_bytes(self.exact(value)?)),
            Slot::Int(at) => columns.ints[*at].push(i32::from_be_bytes(self.exact(value)?)),
            Slot::Long(at) => columns.longs[*at].push(i64::from_be_bytes(self.exact(value)?)),
            Slot::Float(at) => columns.floats[*at].push(f32::from_be_bytes(self.exact(value)?)),
            Slot::Double(at) => columns.doubles[*at].push(f64::from_be_bytes(self.exact(value)?)),
            Slot::Boolean(at) => match self.exact(value)? {
                [byte @ (0 | 1)] => columns.booleans[*at].push(byte == 1),
                [byte] => return Err(Reason::Boolean(byte).into()),
            },
            _ => return Err(Reason::Length(value.len(), self.name()).into()),
        }
        Ok(())
    }

    /// Binds a column to this type.
    pub(crate) fn source(self, column: &dyn Array) -> Result<Source, SchemaError> {
        use Kind::{Boolean, Double, Float, Int, Long, String};
        let (kind, logical) = match self {
            Plain::Short | Plain::Int => (Int, None),
            Plain::Long => (Long, None),
            Plain::Float => (Float, None),
            Plain::Double => (Double, None),
            Plain::Boolean => (Boolean, None),
            Plain::String => (String, None),
            Plain::Uuid => (String, Some(Logical::Uuid)),
        };
        let short = matches!(column.data_type(), DataType::Int8 | DataType::Int16 | DataType::UInt8);
        let source = (self != Plain::Short || short)
            .then(|| encode::valid(&Node::new(kind, logical), column, &Named::new(), "").ok());
        source.flatten().ok_or_else(|| {
            let text = format!("a column of {} cannot be written as {}: cast it", column.data_type(), self.name());
            SchemaError::new("", text)
        })
    }

    /// Encodes a row that is not null.
    #[inline]
    pub(crate) fn write(self, source: &Source, row: usize, out: &mut Vec<u8>) -> Step {
        match source {
            Source::Int(values) if self == Plain::Short => {
                let value = i16::try_from(encode::at(values, row)?).map_err(|_| Reason::Overlong)?;
                out.extend_from_slice(&value.to_be_bytes());
            }
            Source::Int(values) if self == Plain::Long => {
                out.extend_from_slice(&i64::from(encode::at(values, row)?).to_be_bytes());
            }
            Source::Int(values) => out.extend_from_slice(&encode::at(values, row)?.to_be_bytes()),
            Source::Long(values) => out.extend_from_slice(&encode::at(values, row)?.to_be_bytes()),
            Source::Float(values) => out.extend_from_slice(&encode::at(values, row)?.to_be_bytes()),
            Source::Double(values) => out.extend_from_slice(&encode::at(values, row)?.to_be_bytes()),
            Source::Boolean(values) => out.push(values.value(row).into()),
            Source::Keys(of) => self.write(&of.1, encode::at(&of.0, row)?, out)?,
            // Omit the length prefix, which the Avro encoding of text has.
            text => {
                let start = out.len();
                encode::unprefixed(text, row, out)?;
                if self == Plain::Uuid && !out.get(start..).is_some_and(is_uuid) {
                    return Err(Reason::Uuid.into());
                }
            }
        }
        Ok(())
    }

    fn exact<const N: usize>(self, value: &[u8]) -> Step<[u8; N]> {
        value.try_into().map_err(|_| Reason::Length(value.len(), self.name()).into())
    }
}

/// Returns true if the text is a UUID of 36 characters.
fn is_uuid(text: &[u8]) -> bool {
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.iter().enumerate().all(fits)
}
