//! Generator of JSON values and JSON Schemas.
use serde_json::{Value, json};

use crate::bytes::havoc;
use crate::random::Random;
use crate::targets::Values;
use crate::targets::json::SCHEMAS;
use crate::tree::{Node, Number};

/// Returns the target's flags and schema, and the tree of the values.
pub(super) fn of(what: Values, valid: bool, random: &mut Random) -> (Vec<u8>, Node) {
    let flags = random.next() as u8;
    let (mut head, mut schema) = (vec![flags], Value::Null);
    if what == Values::JsonSchema {
        schema = made(random, 4);
        let mut text = schema.to_string().into_bytes();
        if !valid && random.one_in(4) {
            havoc(&mut text, random);
        }
        text.truncate(usize::from(u16::MAX));
        head.extend_from_slice(&(text.len() as u16).to_be_bytes());
        head.extend_from_slice(&text);
    } else if let Some((text, _)) = SCHEMAS.get(usize::from(flags & 63) % SCHEMAS.len()) {
        schema = serde_json::from_str(text).unwrap_or_default();
    }
    let max = if what == Values::JsonSchema { 3 } else { 9 };
    let row = |random: &mut Random| {
        if random.one_in(12) {
            return Node::Int(Number::Big(2), -1);
        }
        let mut parts = Vec::new();
        if what == Values::Json && random.one_in(6) {
            parts.push(Node::Raw(vec![0, 0, 0, 0, 7]));
        }
        value(&schema, &schema, 6, random, &mut parts);
        Node::Sized { by: Number::Big(2), more: 0, lie: None, body: parts }
    };
    (head, Node::Group((0..1 + random.below(max)).map(|_| row(random)).collect()))
}

/// Returns a random JSON Schema with a limited depth.
fn made(random: &mut Random, depth: usize) -> Value {
    let below = |random: &mut Random| made(random, depth.saturating_sub(1));
    match random.below(if depth == 0 { 7 } else { 12 }) {
        0 => json!({"type": "integer", "connect.type": random.pick(&["int8", "int16", "int32", "int64", "x"])}),
        1 => json!({"type": "number", "connect.type": random.pick(&["float32", "float64"])}),
        2 => json!({"type": "string", "format": random.pick(&["date-time", "date", "time", "uuid", ""])}),
        3 => json!({"type": "boolean"}),
        4 => {
            json!({"type": random.pick(&["integer", "string", "number"]), "connect.parameters": {"scale": random.below(90), "connect.decimal.precision": random.below(80)},
            "title": format!("org.apache.kafka.connect.data.{}", random.pick(&["Decimal", "Date", "Time", "Timestamp"]).unwrap_or_default())})
        }
        5 => random.pick(&["#", "#/properties/a", "#/nothing", "x"]).map_or(Value::Null, |to| json!({"$ref": to})),
        6 => json!({}),
        7 => json!({"type": "array", "items": below(random)}),
        8 => json!({"type": "object", "additionalProperties": below(random)}),
        9 => json!({"oneOf": [{"type": "null"}, below(random)]}),
        _ => {
            let names = ["a", "b", "c", "a name of more than sixteen"];
            let some = names.iter().filter(|_| !random.one_in(3)).copied().collect::<Vec<_>>();
            let properties = some.iter().map(|name| ((*name).to_owned(), below(random))).collect();
            json!({"type": "object", "properties": Value::Object(properties), "required": some.first().into_iter().collect::<Vec<_>>()})
        }
    }
}

fn raw(text: impl Into<Vec<u8>>, out: &mut Vec<Node>) {
    out.push(Node::Raw(text.into()));
}

/// Appends a JSON value that matches the schema to `out`, as a list of nodes. If the schema does not specify a type,
/// the type is random.
fn value(schema: &Value, root: &Value, depth: usize, random: &mut Random, out: &mut Vec<Node>) {
    let schema = match schema.get("$ref").and_then(Value::as_str) {
        Some(to) => root.pointer(to.trim_start_matches('#')).unwrap_or(&Value::Null),
        None => schema,
    };
    let schema = schema.pointer("/oneOf/1").unwrap_or(schema);
    let kind = schema.get("type").map(|kind| kind.get(0).unwrap_or(kind)).and_then(Value::as_str);
    let kind = kind.or_else(|| schema.get("properties").map(|_| "object"));
    if random.one_in(10) || depth == 0 {
        return raw("null", out);
    }
    match kind {
        Some("integer") => raw(random.edge(0).to_string(), out),
        Some("number") => {
            const NUMBERS: [&str; 7] =
                ["1.5", "-0.0", "1e308", "123456789012345678901234567890.5", "2E-3", "0.1", "5e-324"];
            raw(random.pick(&NUMBERS).unwrap_or("0"), out);
        }
        Some("boolean") => raw(random.pick(&["true", "false"]).unwrap_or("true"), out),
        Some("object") => object(schema, root, depth, random, out),
        Some("array") => {
            raw("[", out);
            for at in 0..random.below(4) {
                raw(if at > 0 { ", " } else { "" }, out);
                value(schema.get("items").unwrap_or(&Value::Null), root, depth - 1, random, out);
            }
            raw("]", out);
        }
        _ => {
            const TEXTS: [&str; 9] = [
                "\"\"",
                "\"plain\"",
                "\"a text of more than sixteen\"",
                "\"\\u00e4\\n\\ud83d\\ude00\"",
                "\"añ 語\"",
                "\"2026-11-23T17:03:59.25+01:00\"",
                "\"2026-11-23\"",
                "\"23:59:59.999\"",
                "\"MDk=\"",
            ];
            raw(random.pick(&TEXTS).unwrap_or("0"), out);
        }
    }
}

fn object(schema: &Value, root: &Value, depth: usize, random: &mut Random, out: &mut Vec<Node>) {
    let null = Value::Null;
    let mut members: Vec<(&str, &Value)> = match schema.get("properties").and_then(Value::as_object) {
        Some(properties) => properties.iter().map(|(name, schema)| (name.as_str(), schema)).collect(),
        None => vec![("k", schema.get("additionalProperties").unwrap_or(&null)); random.below(3)],
    };
    members.push(("other", &null));
    if random.one_in(3) {
        members.reverse();
    }
    members.retain(|_| !random.one_in(6));
    raw("{", out);
    for (at, (name, schema)) in members.into_iter().enumerate() {
        raw(if at > 0 { "," } else { "" }, out);
        raw(Value::from(name).to_string(), out);
        raw(random.pick(&[":", ": ", " :\n"]).unwrap_or(":"), out);
        value(schema, root, depth - 1, random, out);
    }
    raw("}", out);
}
