//! Types of typed keys and values: Arrow's as Spark's.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use samsarrow_values::path::part;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// A type of Spark's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SparkType {
    /// One without parts, by its name in Spark's JSON: `long`, `timestamp_ntz`.
    Plain(String),
    /// Digits, and those behind the point.
    Decimal(u8, i8),
    /// Fields by their names, and whether they may be null.
    Struct(Vec<(String, SparkType, bool)>),
    /// The type of items, and whether they may be null.
    Array(Box<SparkType>, bool),
    /// The types of keys and values, and whether values may be null.
    Map(Box<SparkType>, Box<SparkType>, bool),
}

impl SparkType {
    /// Arrow's type as Spark's, all that is in it nullable. `path` is for errors: `value.user.city`.
    ///
    /// # Errors
    /// Spark has no such type.
    pub fn of(arrow: &DataType, path: &str) -> Result<SparkType> {
        let plain = |name: &str| Ok(SparkType::Plain(name.to_owned()));
        match arrow {
            DataType::Null => plain("void"),
            DataType::Boolean => plain("boolean"),
            DataType::Int8 => plain("byte"),
            DataType::Int16 | DataType::UInt8 => plain("short"),
            // Numbers without a sign, and times of day, as Spark's from_avro and from_protobuf have them.
            DataType::Int32 | DataType::UInt16 | DataType::Time32(TimeUnit::Millisecond) => plain("integer"),
            DataType::Int64 | DataType::UInt32 | DataType::Time64(TimeUnit::Microsecond) => plain("long"),
            DataType::UInt64 => Ok(SparkType::Decimal(20, 0)),
            DataType::Float32 => plain("float"),
            DataType::Float64 => plain("double"),
            DataType::Utf8 => plain("string"),
            DataType::Binary | DataType::FixedSizeBinary(_) => plain("binary"),
            DataType::Date32 => plain("date"),
            DataType::Timestamp(_, zone) => plain(if zone.is_none() { "timestamp_ntz" } else { "timestamp" }),
            DataType::Decimal128(precision, scale) if *scale >= 0 && i16::from(*scale) <= i16::from(*precision) => {
                Ok(SparkType::Decimal(*precision, *scale))
            }
            DataType::Struct(fields) => {
                let one = |field: &arrow_schema::FieldRef| {
                    let kind = SparkType::of(field.data_type(), &format!("{path}.{}", part(field.name())))?;
                    Ok((field.name().clone(), kind, true))
                };
                Ok(SparkType::Struct(fields.iter().map(one).collect::<Result<_>>()?))
            }
            DataType::List(item) => Ok(SparkType::Array(Box::new(SparkType::of(item.data_type(), path)?), true)),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) => match fields.as_ref() {
                    [key, value] => {
                        let of = |field: &arrow_schema::FieldRef| SparkType::of(field.data_type(), path).map(Box::new);
                        Ok(SparkType::Map(of(key)?, of(value)?, true))
                    }
                    _ => Err(none_like(arrow, path)),
                },
                _ => Err(none_like(arrow, path)),
            },
            _ => Err(none_like(arrow, path)),
        }
    }

    /// As Spark writes it in JSON.
    pub fn json(&self) -> Value {
        match self {
            SparkType::Plain(name) => name.as_str().into(),
            SparkType::Decimal(precision, scale) => format!("decimal({precision},{scale})").into(),
            SparkType::Struct(fields) => {
                let one = |(name, kind, nullable): &(String, SparkType, bool)| json!({"name": name, "type": kind.json(), "nullable": nullable, "metadata": Map::new()});
                json!({"type": "struct", "fields": fields.iter().map(one).collect::<Vec<_>>()})
            }
            SparkType::Array(item, nullable) => {
                json!({"type": "array", "elementType": item.json(), "containsNull": nullable})
            }
            SparkType::Map(key, value, nullable) => {
                json!({
                    "type": "map", "keyType": key.json(), "valueType": value.json(), "valueContainsNull": nullable,
                })
            }
        }
    }

    /// From the text of Spark's JSON.
    pub fn read_text(text: &str) -> Option<SparkType> {
        let told: Value = serde_json::from_str(text).ok()?;
        SparkType::read(&told)
    }

    /// From Spark's JSON.
    pub fn read(told: &Value) -> Option<SparkType> {
        if let Some(name) = told.as_str() {
            let decimal = name.strip_prefix("decimal(").and_then(|rest| rest.strip_suffix(')'));
            return Some(match decimal.and_then(|numbers| numbers.split_once(',')) {
                Some((precision, scale)) => {
                    SparkType::Decimal(precision.trim().parse().ok()?, scale.trim().parse().ok()?)
                }
                None => SparkType::Plain(name.to_owned()),
            });
        }
        let part = |name: &str| told.get(name).and_then(SparkType::read).map(Box::new);
        let flag = |name: &str| told.get(name).and_then(Value::as_bool).unwrap_or(true);
        match told.get("type")?.as_str()? {
            "struct" => {
                let one = |field: &Value| {
                    let name = field.get("name")?.as_str()?.to_owned();
                    let nullable = field.get("nullable").and_then(Value::as_bool).unwrap_or(true);
                    Some((name, SparkType::read(field.get("type")?)?, nullable))
                };
                Some(SparkType::Struct(told.get("fields")?.as_array()?.iter().map(one).collect::<Option<_>>()?))
            }
            "array" => Some(SparkType::Array(part("elementType")?, flag("containsNull"))),
            "map" => Some(SparkType::Map(part("keyType")?, part("valueType")?, flag("valueContainsNull"))),
            other => Some(SparkType::Plain(other.to_owned())),
        }
    }

    /// As Spark shows it: `struct<id:bigint>`.
    pub fn shown(&self) -> String {
        match self {
            SparkType::Plain(name) => match name.as_str() {
                "byte" => "tinyint".to_owned(),
                "short" => "smallint".to_owned(),
                "integer" => "int".to_owned(),
                "long" => "bigint".to_owned(),
                other => other.to_owned(),
            },
            SparkType::Decimal(precision, scale) => format!("decimal({precision},{scale})"),
            SparkType::Struct(fields) => {
                let one = |(name, kind, _): &(String, SparkType, bool)| format!("{name}:{}", kind.shown());
                format!("struct<{}>", fields.iter().map(one).collect::<Vec<_>>().join(","))
            }
            SparkType::Array(item, _) => format!("array<{}>", item.shown()),
            SparkType::Map(key, value, _) => format!("map<{},{}>", key.shown(), value.shown()),
        }
    }
}

fn none_like(arrow: &DataType, path: &str) -> Error {
    let column = path.split('.').next().unwrap_or(path);
    Error::configuration(format!(
        "{path} is of type {}, and Spark has none like it: name the other fields in the option {column}.fields",
        named(arrow)
    ))
}

/// The type as pyarrow names it, which the Python source shows.
fn named(arrow: &DataType) -> String {
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    match arrow {
        DataType::Interval(IntervalUnit::MonthDayNano) => "month_day_nano_interval".to_owned(),
        DataType::Duration(of) => format!("duration[{}]", unit(of)),
        DataType::Time64(of) => format!("time64[{}]", unit(of)),
        DataType::Decimal128(precision, scale) => format!("decimal128({precision}, {scale})"),
        DataType::Decimal256(precision, scale) => format!("decimal256({precision}, {scale})"),
        other => other.to_string().to_lowercase(),
    }
}

#[cfg(test)]
#[path = "types_tests.rs"]
mod tests;
