//! Logical types. As the specification requires, a logical type that does not match its underlying type is ignored.

use arrow_schema::TimeUnit;
use serde_json::{Map, Value};

use super::schema::{Kind, Logical};
use crate::error::SchemaError;

/// Maximum number of digits in Arrow's widest decimal type.
const MAX_DIGITS: u64 = 76;

pub(super) fn of(kind: &Kind, object: &Map<String, Value>, path: &str) -> Result<Option<Logical>, SchemaError> {
    let Some(name) = object.get("logicalType").and_then(Value::as_str) else { return Ok(None) };
    Ok(match (name, kind) {
        ("decimal", Kind::Bytes | Kind::Fixed(..)) => decimal(kind, object, path)?,
        ("uuid", Kind::String | Kind::Fixed(_, 16)) => Some(Logical::Uuid),
        ("date", Kind::Int) => Some(Logical::Date),
        ("time-millis", Kind::Int) => Some(Logical::Time(TimeUnit::Millisecond)),
        ("time-micros", Kind::Long) => Some(Logical::Time(TimeUnit::Microsecond)),
        ("timestamp-millis", Kind::Long) => Some(Logical::Timestamp(TimeUnit::Millisecond)),
        ("timestamp-micros", Kind::Long) => Some(Logical::Timestamp(TimeUnit::Microsecond)),
        ("timestamp-nanos", Kind::Long) => Some(Logical::Timestamp(TimeUnit::Nanosecond)),
        ("local-timestamp-millis", Kind::Long) => Some(Logical::LocalTimestamp(TimeUnit::Millisecond)),
        ("local-timestamp-micros", Kind::Long) => Some(Logical::LocalTimestamp(TimeUnit::Microsecond)),
        ("local-timestamp-nanos", Kind::Long) => Some(Logical::LocalTimestamp(TimeUnit::Nanosecond)),
        ("duration", Kind::Fixed(_, 12)) => Some(Logical::Duration),
        _ => None,
    })
}

fn decimal(kind: &Kind, object: &Map<String, Value>, path: &str) -> Result<Option<Logical>, SchemaError> {
    let number = |key: &str| object.get(key).and_then(Value::as_u64);
    let (Some(precision), scale) = (number("precision"), number("scale")) else { return Ok(None) };
    let scale = match (scale, object.get("scale")) {
        (Some(scale), _) => scale,
        (None, None) => 0,
        (None, Some(_)) => return Ok(None),
    };
    let fits = match kind {
        Kind::Fixed(_, size) => precision <= digits(*size),
        _ => true,
    };
    if precision == 0 || scale > precision || !fits {
        return Ok(None);
    }
    if precision > MAX_DIGITS {
        let text = format!("a decimal of {precision} digits, and Arrow's have at most {MAX_DIGITS}");
        return Err(SchemaError::new(path, text));
    }
    Ok(Some(Logical::Decimal { precision: precision as u8, scale: scale as i8 }))
}

/// Returns the largest precision at which all decimals fit into `bytes` bytes.
fn digits(bytes: usize) -> u64 {
    let bits = (bytes as u64).saturating_mul(8).saturating_sub(1);
    // The precision of a double is sufficient for sizes up to 2 GiB.
    (bits as f64 * std::f64::consts::LOG10_2).floor() as u64
}
