//! Encoding of JSON text as `google.protobuf.Struct`, `Value` or `ListValue`.

use serde_json::Value;

use super::super::plan::Json;
use super::run::{bytes, sized};
use crate::error::{Reason, Step};

pub(super) fn put(what: Json, text: &[u8], out: &mut Vec<u8>) -> Step {
    let value: Value =
        serde_json::from_slice(text).map_err(|error| Reason::Other(format!("the text is no JSON: {error}").into()))?;
    match (what, &value) {
        (Json::Value, _) => put_value(&value, out),
        (Json::Struct, Value::Object(_)) | (Json::List, Value::Array(_)) => put_parts(&value, out),
        (Json::Struct, _) => Err(Reason::Other("the JSON is no object".into()).into()),
        (Json::List, _) => Err(Reason::Other("the JSON is no array".into()).into()),
    }
}

/// Encodes the entries of an object, or the items of an array.
fn put_parts(value: &Value, out: &mut Vec<u8>) -> Step {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                out.push(0x0a);
                sized(out, |out| {
                    out.push(0x0a);
                    bytes(key.as_bytes(), out);
                    out.push(0x12);
                    sized(out, |out| put_value(value, out))
                })?;
            }
        }
        Value::Array(items) => {
            for item in items {
                out.push(0x0a);
                sized(out, |out| put_value(item, out))?;
            }
        }
        _ => (),
    }
    Ok(())
}

fn put_value(value: &Value, out: &mut Vec<u8>) -> Step {
    match value {
        Value::Null => out.extend_from_slice(&[0x08, 0]),
        Value::Bool(value) => out.extend_from_slice(&[0x20, u8::from(*value)]),
        Value::Number(number) => {
            out.push(0x11);
            out.extend_from_slice(&number.as_f64().unwrap_or(f64::NAN).to_le_bytes());
        }
        Value::String(text) => {
            out.push(0x1a);
            bytes(text.as_bytes(), out);
        }
        Value::Object(_) | Value::Array(_) => {
            out.push(if value.is_object() { 0x2a } else { 0x32 });
            sized(out, |out| put_parts(value, out))?;
        }
    }
    Ok(())
}
