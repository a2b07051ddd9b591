//! Derivation of an Avro schema from an Arrow type.

use std::collections::HashSet;

use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit};

use super::parse::join;
use crate::error::SchemaError;

/// Metadata key of the Arrow extension type.
const EXTENSION: &str = "ARROW:extension:name";

/// Returns the JSON text of an Avro schema for columns of an Arrow type. The same type always results in the same text.
/// `name` is the full name of the record. Nested records and fixed types are named after their fields, in the namespace
/// of the enclosing type. The type of a nullable column becomes a union of null and the column's Avro type, with null
/// as default.
///
/// # Errors
/// Fails if a column has no Avro type, or a name that Avro does not allow. The error contains the column.
pub fn derive(data_type: &DataType, name: &str) -> Result<String, SchemaError> {
    if name.is_empty() || name.split('.').any(|part| !is_name(part)) {
        return Err(SchemaError::new("", format!("{name:?} is no name of a record: {RULE}")));
    }
    of(data_type, name, "")
}

const RULE: &str = "Avro's have letters, digits and _, and no digit first";

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the Avro schema of the non-null values of a type. If the schema is a named type, it gets the name `name`.
fn of(data_type: &DataType, name: &str, path: &str) -> Result<String, SchemaError> {
    let plain = |kind: &str| format!("\"{kind}\"");
    let logical = |kind: &str, logical: &str| format!(r#"{{"type":"{kind}","logicalType":"{logical}"}}"#);
    Ok(match data_type {
        DataType::Null => plain("null"),
        DataType::Boolean => plain("boolean"),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => plain("int"),
        DataType::Int64 | DataType::UInt32 => plain("long"),
        DataType::Float16 | DataType::Float32 => plain("float"),
        DataType::Float64 => plain("double"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => plain("string"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => plain("bytes"),
        DataType::FixedSizeBinary(size) => format!(r#"{{"type":"fixed","name":"{name}","size":{size}}}"#),
        DataType::Date32 | DataType::Date64 => logical("int", "date"),
        DataType::Time32(_) => logical("int", "time-millis"),
        DataType::Time64(TimeUnit::Microsecond) => logical("long", "time-micros"),
        DataType::Timestamp(unit, zone) => {
            let local = if zone.is_none() { "local-" } else { "" };
            logical("long", &format!("{local}timestamp-{}", unit_name(*unit)))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            format!(r#"{{"type":"fixed","name":"{name}","size":12,"logicalType":"duration"}}"#)
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale)
            if (0..=*precision as i8).contains(scale) =>
        {
            format!(r#"{{"type":"bytes","logicalType":"decimal","precision":{precision},"scale":{scale}}}"#)
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            format!(r#"{{"type":"array","items":{}}}"#, nullable(item, name, path)?)
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(entries) => match &**entries {
                [key, value] if is_text(key.data_type()) => {
                    format!(r#"{{"type":"map","values":{}}}"#, nullable(value, name, path)?)
                }
                _ => return Err(SchemaError::new(path, "keys of a map must be string, as all of Avro's are")),
            },
            other => return Err(unsupported(other, path)),
        },
        DataType::Dictionary(_, values) => of(values, name, path)?,
        DataType::Struct(fields) => record(fields, name, path)?,
        other => return Err(unsupported(other, path)),
    })
}

fn unsupported(data_type: &DataType, path: &str) -> SchemaError {
    let hint = match data_type {
        DataType::UInt64 => "int64, or decimal128(20, 0)",
        DataType::Time64(_) => "time64[us]",
        _ => "another type",
    };
    SchemaError::new(path, format!("Avro has no type for a column of {data_type}: cast it to {hint}"))
}

fn record(fields: &Fields, name: &str, path: &str) -> Result<String, SchemaError> {
    let (mut all, mut seen) = (Vec::new(), HashSet::new());
    for field in fields {
        let at = join(path, field.name());
        if !is_name(field.name()) {
            return Err(SchemaError::new(&at, format!("{:?} is no name of a field: {RULE}", field.name())));
        }
        if !seen.insert(field.name()) {
            return Err(SchemaError::new(&at, "there are two columns of this name"));
        }
        let kind = nullable(field, &format!("{name}.{}", field.name()), &at)?;
        let default = if field.is_nullable() { r#","default":null"# } else { "" };
        all.push(format!(r#"{{"name":"{}","type":{kind}{default}}}"#, field.name()));
    }
    Ok(format!(r#"{{"type":"record","name":"{name}","fields":[{}]}}"#, all.join(",")))
}

fn nullable(field: &Field, name: &str, path: &str) -> Result<String, SchemaError> {
    let uuid = field.metadata().get(EXTENSION).is_some_and(|extension| extension == "arrow.uuid");
    let kind = match field.data_type() {
        DataType::FixedSizeBinary(16) if uuid => r#"{"type":"string","logicalType":"uuid"}"#.to_owned(),
        other => of(other, name, path)?,
    };
    Ok(if field.is_nullable() && *field.data_type() != DataType::Null { format!(r#"["null",{kind}]"#) } else { kind })
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second | TimeUnit::Millisecond => "millis",
        TimeUnit::Microsecond => "micros",
        TimeUnit::Nanosecond => "nanos",
    }
}
