//! Conversion of the types of written columns from Spark to Arrow.

use std::sync::Arc;

use arrow_schema::{DataType, Field, TimeUnit};
use samsarrow_values::path::part;

use super::SparkType;
use crate::error::{Error, Result};

/// Returns the Arrow type of a column to encode, with the nullability of the Spark type. `path` names the field in
/// error texts: `value.user.city`.
///
/// # Errors
/// Fails if no format supports the type.
pub(super) fn arrow_type(spark: &SparkType, path: &str) -> Result<DataType> {
    Ok(match spark {
        SparkType::Plain(name) => match name.as_str() {
            "void" => DataType::Null,
            "boolean" => DataType::Boolean,
            "byte" => DataType::Int8,
            "short" => DataType::Int16,
            "integer" => DataType::Int32,
            "long" => DataType::Int64,
            "float" => DataType::Float32,
            "double" => DataType::Float64,
            "binary" => DataType::Binary,
            "date" => DataType::Date32,
            "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            "timestamp_ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
            // Matches strings with any collation.
            text if text == "string" || text.starts_with("string collate ") => DataType::Utf8,
            _ => {
                let shown = spark.to_spark_string();
                let text = format!("column {path} is {shown}, which no format writes: cast it");
                return Err(Error::configuration(text));
            }
        },
        SparkType::Decimal(precision, scale) => DataType::Decimal128(*precision, *scale),
        SparkType::Struct(fields) => {
            let convert = |(name, kind, nullable): &(String, SparkType, bool)| {
                Ok(Field::new(name, arrow_type(kind, &format!("{path}.{}", part(name)))?, *nullable))
            };
            DataType::Struct(fields.iter().map(convert).collect::<Result<Vec<_>>>()?.into())
        }
        SparkType::Array(item, nullable) => {
            DataType::List(Arc::new(Field::new("element", arrow_type(item, path)?, *nullable)))
        }
        SparkType::Map(key, value, nullable) => {
            let key = Field::new("key", arrow_type(key, path)?, false);
            let value = Field::new("value", arrow_type(value, path)?, *nullable);
            let entries = Field::new("entries", DataType::Struct(vec![key, value].into()), false);
            DataType::Map(Arc::new(entries), false)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_nested_types_with_their_nullability() {
        let text = r#"{"type":"struct","fields":[
            {"name":"id","type":"long","nullable":false},
            {"name":"tags","type":{"type":"array","elementType":"string","containsNull":false},"nullable":true},
            {"name":"by.name","type":{"type":"map","keyType":"string","valueType":"decimal(9,2)","valueContainsNull":true},"nullable":true}]}"#;
        let DataType::Struct(fields) = arrow_type(&SparkType::parse(text).unwrap(), "value").unwrap() else { panic!() };
        let shown: Vec<(&str, bool)> =
            fields.iter().map(|field| (field.name().as_str(), field.is_nullable())).collect();
        assert_eq!(shown, [("id", false), ("tags", true), ("by.name", true)]);
        let DataType::List(item) = fields[1].data_type() else { panic!() };
        assert!(!item.is_nullable());
        assert!(matches!(fields[2].data_type(), DataType::Map(entries, false) if !entries.is_nullable()));
    }

    #[test]
    fn names_the_field_of_an_unsupported_type() {
        let interval = SparkType::Plain("interval day to second".to_owned());
        let kind = SparkType::Struct(vec![("to.ok".to_owned(), interval, true)]);
        let error = arrow_type(&kind, "value").unwrap_err().to_string();
        assert_eq!(error, "column value.`to.ok` is interval day to second, which no format writes: cast it");
    }
}
