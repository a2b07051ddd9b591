//! JSON values, with schemas that determine their columns.
use samsarrow_values::json::{Inference, Schema};
use samsarrow_values::{Decoder, Framing, Options};

use super::broken;
use super::values::{MAX_ROWS, MAX_ROWS_OF_ANY, Row, decode, part, rows};

/// Schemas of the target `json`, with the field to select in a projection.
pub(crate) const SCHEMAS: &[(&str, &str)] = &[
    (
        r##"{"type": "object", "required": ["id"], "definitions": {"user": {"type": "object", "properties":
            {"name": {"type": "string"}, "age": {"type": "integer", "connect.type": "int8"}, "friend": {"$ref": "#/definitions/user"}}}},
            "properties": {"id": {"type": "integer"}, "user": {"$ref": "#/definitions/user"}, "score": {"type": "number"},
            "tags": {"type": "array", "items": {"type": ["null", "string"]}}, "ok": {"type": "boolean"}, "more": {}}}"##,
        "user",
    ),
    (
        r#"{"properties": {"a": {"type": "string", "format": "date-time"}, "b": {"type": "string", "format": "date"},
            "c": {"type": "string", "format": "time"}, "d": {"type": "string", "contentEncoding": "base64"},
            "e": {"type": "number", "title": "org.apache.kafka.connect.data.Decimal", "connect.parameters": {"scale": "9", "connect.decimal.precision": "70"}},
            "f": {"type": "string", "title": "org.apache.kafka.connect.data.Decimal", "connect.parameters": {"scale": "2", "connect.decimal.precision": "9"}},
            "g": {"type": "number", "connect.type": "float32"}, "h": {"type": "integer", "connect.type": "int16"}}}"#,
        "e",
    ),
    (
        r#"{"additionalProperties": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "number"}}}, "type": "object"}"#,
        "",
    ),
    (
        r#"{"type": "array", "items": {"type": ["object", "null"], "properties": {"x": {"type": "integer"}, "y": {"type": "null"}, "z": {"type": "array"}}}}"#,
        "z",
    ),
    (r#"{"type": "string"}"#, ""),
];

/// Input: a byte with the index of a schema, and flag 128 to decode only one field; then the values.
pub(super) fn json(input: &[u8]) {
    let Some((&flags, mut rest)) = input.split_first() else { return };
    let Some((text, field)) = SCHEMAS.get(usize::from(flags & 63) % SCHEMAS.len()) else { return };
    let fields = (flags & 128 != 0 && !field.is_empty()).then(|| vec![(*field).to_owned()]);
    let options = Options { fields, framing: Framing::Auto, ..Options::default() };
    let schema = Schema::parse(text, &[], &[]).unwrap_or_else(|error| broken(&format!("{text}: {error}")));
    let rows = rows(&mut rest, MAX_ROWS);
    decode(|| Decoder::json(&schema, &options).unwrap_or_else(|error| broken(&error.to_string())), &rows);
    inferred(&rows);
}

/// Checks that the schema inferred from the values accepts these values.
fn inferred(rows: &[Row<'_>]) {
    let mut inference = Inference::default();
    let good: Vec<_> = rows.iter().filter(|row| inference.push(row.value).is_ok()).collect();
    let Ok(columns) = inference.finish() else { return };
    let schema = Schema::from_arrow(arrow_schema::DataType::Struct(columns.fields));
    let mut decoder = Decoder::json(&schema, &Options::default()).unwrap_or_else(|error| broken(&error.to_string()));
    for row in good {
        if let Err(bad) = decoder.push(row.value, None)
            && !beyond(&bad.to_string())
        {
            broken(&format!("the schema that was inferred does not take a value: {bad}"));
        }
    }
}

/// Returns true if the reason does not depend on the schema: a number beyond the range of double, or excessive
/// expansion or nesting.
fn beyond(reason: &str) -> bool {
    ["out of the range of double", "would decode to more than", "nested more than"]
        .iter()
        .any(|known| reason.contains(known))
}

/// Input: a byte of flags, the length of a schema in two bytes, its text, and the values.
pub(super) fn schema(input: &[u8]) {
    let Some((_, mut rest)) = input.split_first() else { return };
    let Some(text) = part(&mut rest) else { return };
    let Ok(schema) = Schema::parse(&String::from_utf8_lossy(text), &[], &[]) else { return };
    let options = Options { framing: Framing::Bare, ..Options::default() };
    if Decoder::json(&schema, &options).is_ok() {
        let make = || Decoder::json(&schema, &options).unwrap_or_else(|error| broken(&error.to_string()));
        decode(make, &rows(&mut rest, MAX_ROWS_OF_ANY));
    }
}
