//! Decoding of `google.protobuf.Struct`, `Value` and `ListValue` as JSON text.

use serde_json::{Map, Number, Value};

use super::plan::Json;
use super::skip;
use crate::byte_reader::{Budget, ByteReader};
use crate::error::{Reason, Step};

/// Maximum nesting of values.
const MAX_DEPTH: usize = 100;
/// Estimated memory of a value while it is decoded, in bytes. The value itself may take no bytes in the input.
const GROWTH: u64 = 128;

pub(super) fn text(what: Json, message: &[u8], budget: &mut Budget) -> Step<String> {
    let mut found = match what {
        Json::Struct => Value::Object(Map::new()),
        Json::Value => Value::Null,
        Json::List => Value::Array(Vec::new()),
    };
    read(what, message, &mut found, 0, budget)?;
    Ok(found.to_string())
}

/// Merges an encoded message into an existing JSON value.
fn read(what: Json, message: &[u8], into: &mut Value, depth: usize, budget: &mut Budget) -> Step {
    if depth >= MAX_DEPTH {
        return Err(skip::too_deep());
    }
    budget.take(1, 1, GROWTH, message.len())?;
    let mut input = ByteReader::new(message);
    while input.len() > 0 {
        let tag = skip::tag(&mut input)?;
        match (what, tag) {
            (Json::Struct, 0x0a) => {
                let (key, value) = entry(input.delimited()?.0, depth + 1, budget)?;
                if let Value::Object(entries) = into {
                    entries.insert(key, value);
                }
            }
            (Json::List, 0x0a) => {
                let mut item = Value::Null;
                read(Json::Value, input.delimited()?.0, &mut item, depth + 1, budget)?;
                if let Value::Array(items) = into {
                    items.push(item);
                }
            }
            (Json::Value, 0x08) => {
                input.skip_varint()?;
                *into = Value::Null;
            }
            (Json::Value, 0x11) => *into = number(f64::from_le_bytes(input.chunk()?)),
            (Json::Value, 0x1a) => *into = Value::String(string(input.delimited()?.0)?),
            (Json::Value, 0x20) => *into = Value::Bool(input.varint()? != 0),
            (Json::Value, 0x2a) => {
                // If the previous value is also an object, both are merged.
                if !into.is_object() {
                    *into = Value::Object(Map::new());
                }
                read(Json::Struct, input.delimited()?.0, into, depth + 1, budget)?;
            }
            (Json::Value, 0x32) => {
                if !into.is_array() {
                    *into = Value::Array(Vec::new());
                }
                read(Json::List, input.delimited()?.0, into, depth + 1, budget)?;
            }
            _ => skip::field(&mut input, tag)?,
        }
    }
    Ok(())
}

fn entry(message: &[u8], depth: usize, budget: &mut Budget) -> Step<(String, Value)> {
    let (mut key, mut value) = (String::new(), Value::Null);
    let mut input = ByteReader::new(message);
    while input.len() > 0 {
        match skip::tag(&mut input)? {
            0x0a => key = string(input.delimited()?.0)?,
            0x12 => read(Json::Value, input.delimited()?.0, &mut value, depth, budget)?,
            tag => skip::field(&mut input, tag)?,
        }
    }
    Ok((key, value))
}

fn string(bytes: &[u8]) -> Step<String> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Reason::Utf8.into()),
    }
}

/// Returns a JSON number. NaN and infinities become strings, as Protobuf's JSON mapping specifies.
fn number(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => Value::from("NaN"),
        None => Value::from(if value > 0.0 { "Infinity" } else { "-Infinity" }),
    }
}
