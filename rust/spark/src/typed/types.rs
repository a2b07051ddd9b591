//! Conversion of the Arrow types of keys and values to Spark types.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use samsarrow_values::path::part;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// Spark data type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SparkType {
    /// Type without parameters, such as `long` or `timestamp_ntz`, by its name in Spark's JSON.
    Plain(String),
    /// Decimal with precision and scale.
    Decimal(u8, i8),
    /// Struct fields: the name, the type, and true if the field may be null.
    Struct(Vec<(String, SparkType, bool)>),
    /// Element type of a list, and true if elements may be null.
    Array(Box<SparkType>, bool),
    /// Key and value types of a map, and true if values may be null.
    Map(Box<SparkType>, Box<SparkType>, bool),
}

impl SparkType {
    /// Converts an Arrow type to a Spark type in which all nested values may be null. `path` names the field in error
    /// texts: `value.user.city`.
    ///
    /// # Errors
    /// Fails if Spark has no corresponding type.
    pub fn from_arrow(arrow: &DataType, path: &str) -> Result<SparkType> {
        let plain = |name: &str| Ok(SparkType::Plain(name.to_owned()));
        match arrow {
            DataType::Null => plain("void"),
            DataType::Boolean => plain("boolean"),
            DataType::Int8 => plain("byte"),
            DataType::Int16 | DataType::UInt8 => plain("short"),
            // Unsigned integers and times of day are converted as Spark's from_avro and from_protobuf do.
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
                let convert = |field: &arrow_schema::FieldRef| {
                    let kind = SparkType::from_arrow(field.data_type(), &format!("{path}.{}", part(field.name())))?;
                    Ok((field.name().clone(), kind, true))
                };
                Ok(SparkType::Struct(fields.iter().map(convert).collect::<Result<_>>()?))
            }
            DataType::List(item) => {
                Ok(SparkType::Array(Box::new(SparkType::from_arrow(item.data_type(), path)?), true))
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) => match fields.as_ref() {
                    [key, value] => {
                        let of = |field: &arrow_schema::FieldRef| {
                            SparkType::from_arrow(field.data_type(), path).map(Box::new)
                        };
                        Ok(SparkType::Map(of(key)?, of(value)?, true))
                    }
                    _ => Err(unsupported(arrow, path)),
                },
                _ => Err(unsupported(arrow, path)),
            },
            _ => Err(unsupported(arrow, path)),
        }
    }

    /// Formats the type in Spark's JSON.
    pub fn json(&self) -> Value {
        match self {
            SparkType::Plain(name) => name.as_str().into(),
            SparkType::Decimal(precision, scale) => format!("decimal({precision},{scale})").into(),
            SparkType::Struct(fields) => {
                let field = |(name, kind, nullable): &(String, SparkType, bool)| json!({"name": name, "type": kind.json(), "nullable": nullable, "metadata": Map::new()});
                json!({"type": "struct", "fields": fields.iter().map(field).collect::<Vec<_>>()})
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

    /// Parses a type from a text in Spark's JSON.
    pub fn parse(text: &str) -> Option<SparkType> {
        let json: Value = serde_json::from_str(text).ok()?;
        SparkType::from_json(&json)
    }

    /// Parses Spark's JSON.
    pub fn from_json(json: &Value) -> Option<SparkType> {
        if let Some(name) = json.as_str() {
            let decimal = name.strip_prefix("decimal(").and_then(|rest| rest.strip_suffix(')'));
            return Some(match decimal.and_then(|numbers| numbers.split_once(',')) {
                Some((precision, scale)) => {
                    SparkType::Decimal(precision.trim().parse().ok()?, scale.trim().parse().ok()?)
                }
                None => SparkType::Plain(name.to_owned()),
            });
        }
        let part = |name: &str| json.get(name).and_then(SparkType::from_json).map(Box::new);
        let flag = |name: &str| json.get(name).and_then(Value::as_bool).unwrap_or(true);
        match json.get("type")?.as_str()? {
            "struct" => {
                let parse_field = |field: &Value| {
                    let name = field.get("name")?.as_str()?.to_owned();
                    let nullable = field.get("nullable").and_then(Value::as_bool).unwrap_or(true);
                    Some((name, SparkType::from_json(field.get("type")?)?, nullable))
                };
                Some(SparkType::Struct(json.get("fields")?.as_array()?.iter().map(parse_field).collect::<Option<_>>()?))
            }
            "array" => Some(SparkType::Array(part("elementType")?, flag("containsNull"))),
            "map" => Some(SparkType::Map(part("keyType")?, part("valueType")?, flag("valueContainsNull"))),
            other => Some(SparkType::Plain(other.to_owned())),
        }
    }

    /// Formats the type as Spark displays it, for example as `struct<id:bigint>`.
    pub fn to_spark_string(&self) -> String {
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
                let format = |(name, kind, _): &(String, SparkType, bool)| format!("{name}:{}", kind.to_spark_string());
                format!("struct<{}>", fields.iter().map(format).collect::<Vec<_>>().join(","))
            }
            SparkType::Array(item, _) => format!("array<{}>", item.to_spark_string()),
            SparkType::Map(key, value, _) => format!("map<{},{}>", key.to_spark_string(), value.to_spark_string()),
        }
    }
}

fn unsupported(arrow: &DataType, path: &str) -> Error {
    let column = path.split('.').next().unwrap_or(path);
    Error::configuration(format!(
        "{path} has the type {}, which Spark does not support: name the other fields in the option {column}.fields",
        pyarrow_name(arrow)
    ))
}

/// Returns pyarrow's name of the type, which the Python source displays.
fn pyarrow_name(arrow: &DataType) -> String {
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
