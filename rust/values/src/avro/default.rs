//! Default values, encoded in Avro so that the decoder can read them.

use samsarrow_wire::varint::put_varlong;
use serde_json::Value;

use super::parse::{MAX_DEPTH, join};
use super::recursion::Named;
use super::schema::{Kind, Node};
use crate::error::SchemaError;

/// Encodes a default value as a writer would have encoded it. `named` contains the recursive types.
pub(super) fn encoded(node: &Node, json: &Value, named: &Named, path: &str) -> Result<Vec<u8>, SchemaError> {
    let mut out = Vec::new();
    write(node, json, &Names { named, left: MAX_DEPTH }, path, &mut out)?;
    Ok(out)
}

/// Recursive types, and the number of references that may still be followed. The number is limited, because a default
/// may refer to itself.
#[derive(Clone, Copy)]
struct Names<'a> {
    named: &'a Named,
    left: usize,
}

fn write(node: &Node, json: &Value, names: &Names<'_>, path: &str, out: &mut Vec<u8>) -> Result<(), SchemaError> {
    match (&node.kind, json) {
        (Kind::Null, Value::Null) => {}
        (Kind::Boolean, Value::Bool(value)) => out.push((*value).into()),
        (Kind::Int | Kind::Long, _) => match whole(json) {
            Some(value) if matches!(node.kind, Kind::Long) || i32::try_from(value).is_ok() => put_varlong(out, value),
            _ => return Err(incompatible(node, json, path)),
        },
        (Kind::Float | Kind::Double, _) => match float(json) {
            Some(value) if matches!(node.kind, Kind::Double) => out.extend(value.to_le_bytes()),
            Some(value) => out.extend((value as f32).to_le_bytes()),
            None => return Err(incompatible(node, json, path)),
        },
        (Kind::String, Value::String(text)) => prefixed(text.as_bytes(), out),
        (Kind::Bytes, Value::String(text)) => prefixed(&latin(text, path)?, out),
        (Kind::Fixed(_, size), Value::String(text)) => {
            let bytes = latin(text, path)?;
            if bytes.len() != *size {
                let text = format!("the default has {} bytes, and {} has {size}", bytes.len(), node.described());
                return Err(SchemaError::new(path, text));
            }
            out.extend(bytes);
        }
        (Kind::Enum(of), Value::String(text)) => match of.symbols.iter().position(|symbol| **symbol == **text) {
            Some(at) => put_varlong(out, at as i64),
            None => return Err(incompatible(node, json, path)),
        },
        (Kind::Array(item), Value::Array(values)) => {
            block(values.len(), out);
            for value in values {
                write(item, value, names, path, out)?;
            }
            put_varlong(out, 0);
        }
        (Kind::Map(of), Value::Object(values)) => {
            block(values.len(), out);
            for (key, value) in values {
                prefixed(key.as_bytes(), out);
                write(of, value, names, path, out)?;
            }
            put_varlong(out, 0);
        }
        (Kind::Record(of), Value::Object(values)) => {
            for field in &of.fields {
                let at = join(path, &field.name);
                match values.get(&*field.name).or(field.default.as_ref()) {
                    Some(value) => write(&field.node, value, names, &at, out)?,
                    None => return Err(SchemaError::new(&at, "the default of the record lacks this field")),
                }
            }
        }
        (Kind::Again(name) | Kind::Deeper(name, _), _) => {
            match (names.left.checked_sub(1), names.named.get(&name.full)) {
                (Some(left), Some(definition)) => write(definition, json, &Names { left, ..*names }, path, out)?,
                _ => return Err(incompatible(node, json, path)),
            }
        }
        // A default has the type of the first branch or, since Avro 1.12, of any branch. For a string, branches of
        // numbers are tried last, because Java reads "NaN" as the string of `["double", "string"]`.
        (Kind::Union(branches), _) => {
            let is_last = |branch: &Node| json.is_string() && matches!(branch.kind, Kind::Float | Kind::Double);
            let (last, first): (Vec<_>, Vec<_>) = branches.iter().enumerate().partition(|(_, branch)| is_last(branch));
            for (at, branch) in first.into_iter().chain(last) {
                let mut value = Vec::new();
                if write(branch, json, names, path, &mut value).is_ok() {
                    put_varlong(out, at as i64);
                    out.extend(value);
                    return Ok(());
                }
            }
            return Err(incompatible(node, json, path));
        }
        _ => return Err(incompatible(node, json, path)),
    }
    Ok(())
}

fn incompatible(node: &Node, json: &Value, path: &str) -> SchemaError {
    SchemaError::new(path, format!("the default {json} is no {}", node.described()))
}

/// Returns an integer, which may also be written as 1.0 or 1e3.
fn whole(json: &Value) -> Option<i64> {
    let exact = |value: &f64| value.fract() == 0.0 && value.abs() <= (1_i64 << 53) as f64;
    json.as_i64().or_else(|| json.as_f64().filter(exact).map(|value| value as i64))
}

/// Returns a number. Strings stand for the special values that JSON numbers cannot express.
fn float(json: &Value) -> Option<f64> {
    match json.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity" | "INF") => Some(f64::INFINITY),
        Some("-Infinity" | "-INF") => Some(f64::NEG_INFINITY),
        _ => json.as_f64(),
    }
}

/// Converts the default of a bytes or fixed type: each character from U+0000 to U+00FF stands for a byte.
fn latin(text: &str, path: &str) -> Result<Vec<u8>, SchemaError> {
    let byte = |c: char| u8::try_from(u32::from(c));
    text.chars().map(byte).collect::<Result<_, _>>().map_err(|_| {
        SchemaError::new(path, format!("the default {text:?} has characters beyond U+00FF, which stand for no byte"))
    })
}

fn prefixed(bytes: &[u8], out: &mut Vec<u8>) {
    put_varlong(out, bytes.len() as i64);
    out.extend(bytes);
}

fn block(items: usize, out: &mut Vec<u8>) {
    if items > 0 {
        put_varlong(out, items as i64);
    }
}
