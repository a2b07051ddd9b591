//! Values in Avro and in the formats of Kafka's primitive serializers, with their schemas and framings.
use arrow_array::{Array, ArrayRef};
use samsarrow_values::avro::Schema;
use samsarrow_values::primitive_serdes::Plain;
use samsarrow_values::{BadValue, Decoder, Enums, Framing, Options, SchemaId, ValueError, framing};

use super::broken;

/// Schemas of the target `avro`, with the fields to select in a projection.
pub(crate) const SCHEMAS: &[(&str, &[&str])] = &[
    (
        r#"{"type": "record", "name": "Event", "namespace": "n.s", "fields": [
            {"name": "id", "type": "long"}, {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "BB"]}},
            {"name": "user", "type": ["null", {"type": "record", "name": "User", "fields": [
                {"name": "name", "type": "string"}, {"name": "age", "type": ["int", "null"]}, {"name": "seen", "type": "n.s.Kind"}]}]},
            {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
            {"name": "score", "type": "double"}, {"name": "ok", "type": "boolean"}, {"name": "raw", "type": "bytes"}]}"#,
        &["kind", "user.age", "ok"],
    ),
    (
        r#"{"type": "record", "name": "Logical", "fields": [
            {"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}},
            {"name": "b", "type": ["null", {"type": "fixed", "name": "W", "size": 32, "logicalType": "decimal", "precision": 76, "scale": 9}]},
            {"name": "c", "type": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}},
            {"name": "d", "type": ["null", {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}]},
            {"name": "e", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
            {"name": "f", "type": {"type": "int", "logicalType": "time-millis"}},
            {"name": "g", "type": {"type": "int", "logicalType": "date"}}, {"name": "h", "type": "float"}]}"#,
        &["d"],
    ),
    (
        r#"{"type": "map", "values": {"type": "array", "items": {"type": "map", "values": {"type": "fixed", "name": "F", "size": 3}}}}"#,
        &[],
    ),
    (
        r#"["long", "null", {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}},
            {"name": "b", "type": [{"type": "fixed", "name": "Z", "size": 0}, "string", "bytes", {"type": "map", "values": "int"}]}]},
            {"type": "array", "items": "R"}, {"type": "enum", "name": "x.R", "symbols": ["A", "B", "C"]}]"#,
        &[],
    ),
    (
        r#"{"type": "array", "items": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "null"},
            {"name": "y", "type": {"type": "array", "items": {"type": "record", "name": "Q", "fields": []}}}, {"name": "z", "type": "long"}]}}"#,
        &["z"],
    ),
    (r#""bytes""#, &[]),
    (
        r#"{"type": "record", "name": "T", "fields": [{"name": "id", "type": "long"}, {"name": "next", "type": ["null", "T"]},
            {"name": "by", "type": {"type": "map", "values": ["null", "T", "string"]}}, {"name": "end", "type": "string"}]}"#,
        &["id", "end"],
    ),
    (r#"["null", "string"]"#, &[]),
];

/// Maximum number of values per input. For arbitrary schemas it is lower, because their values may expand to large
/// columns.
pub(super) const MAX_ROWS: usize = 64;
pub(super) const MAX_ROWS_OF_ANY: usize = 3;

/// Input: a byte with the index of a schema and flags, then the values. Flags: 64 for enums as dictionaries, 128 for a
/// projection.
pub(super) fn avro(input: &[u8]) {
    let Some((&flags, mut rest)) = input.split_first() else { return };
    let Some((text, some)) = SCHEMAS.get(usize::from(flags & 63) % SCHEMAS.len()) else { return };
    let fields = (flags & 128 != 0 && !some.is_empty()).then(|| some.iter().map(|name| (*name).to_owned()).collect());
    let options = Options { fields, ..bare(flags) };
    let schema = Schema::parse(text).unwrap_or_else(|error| broken(&format!("{text}: {error}")));
    let make = || Decoder::avro(&schema, &options).unwrap_or_else(|error| broken(&format!("{text}: {error}")));
    decode(make, &rows(&mut rest, MAX_ROWS));
}

/// Input: a byte of flags, the length of a schema in two bytes, its text, and the values.
pub(super) fn schema(input: &[u8]) {
    let Some((&flags, mut rest)) = input.split_first() else { return };
    let Some(schema) = part(&mut rest).and_then(parsed) else { return };
    if Decoder::avro(&schema, &bare(flags)).is_ok() {
        let make = || Decoder::avro(&schema, &bare(flags)).unwrap_or_else(|error| broken(&error.to_string()));
        decode(make, &rows(&mut rest, MAX_ROWS_OF_ANY));
    }
}

/// Input: a byte of flags, the reader's schema, the writer's schema (both with their length), and the values.
pub(super) fn resolve(input: &[u8]) {
    let Some((&flags, mut rest)) = input.split_first() else { return };
    let Some(reader) = part(&mut rest).and_then(parsed) else { return };
    let Some(writer) = part(&mut rest).and_then(parsed) else { return };
    if Decoder::avro(&reader, &bare(flags)).is_ok() {
        let make = || {
            let mut decoder = Decoder::avro(&reader, &bare(flags)).unwrap_or_else(|error| broken(&error.to_string()));
            decoder.add_writer(SchemaId::Bare, &writer);
            decoder
        };
        decode(make, &rows(&mut rest, MAX_ROWS_OF_ANY));
    }
}

pub(crate) const FRAMINGS: [Framing; 6] =
    [Framing::Auto, Framing::Confluent, Framing::Apicurio, Framing::SingleObject, Framing::Bare, Framing::Header];
/// Flags from which on the framing is that of AWS Glue. The framings of smaller flags are those of inputs in the corpus.
pub(crate) const GLUE: u8 = 240;
pub(crate) const PLAIN: [Plain; 8] =
    [Plain::String, Plain::Short, Plain::Int, Plain::Long, Plain::Float, Plain::Double, Plain::Boolean, Plain::Uuid];
/// Writer schemas of framed values. Schema ids are 1, 2 and 3; a GUID consists of 16 bytes with the same number.
pub(crate) const WRITERS: [&str; 3] = ["bytes", "string", "long"];

/// Returns the framing that the flags of an input determine.
pub(crate) fn framing_of(flags: u8) -> Framing {
    if flags >= GLUE {
        return Framing::Glue;
    }
    FRAMINGS.get(usize::from(flags) % FRAMINGS.len()).copied().unwrap_or_default()
}

/// Input: a byte that determines framing and primitive type, then values, each with an optional header.
pub(super) fn framed(input: &[u8]) {
    let Some((&flags, mut rest)) = input.split_first() else { return };
    let mut rows = Vec::new();
    while rows.len() < MAX_ROWS
        && let Some((&len, after)) = rest.split_first()
    {
        rest = after;
        let mut header = None;
        if len < u8::MAX {
            let (bytes, after) = rest.split_at(usize::from(len).min(rest.len()));
            (header, rest) = (Some(bytes), after);
        }
        rows.push(Row { header, value: value(&mut rest) });
    }
    let framing = framing_of(flags);
    for row in &rows {
        let Some(value) = row.value else { continue };
        if let Ok((id, payload)) = framing::split(framing, value, row.header) {
            assert!(value.ends_with(payload), "{id}: bytes that are not the value's");
            assert!(!id.to_string().is_empty());
        }
    }
    let schemas = WRITERS.map(|text| Schema::parse(text).unwrap_or_else(|error| broken(&error.to_string())));
    let [reader, ..] = &schemas;
    decode(
        || {
            let options = Options { framing, ..Options::default() };
            let mut decoder = Decoder::avro(reader, &options).unwrap_or_else(|error| broken(&error.to_string()));
            for (number, schema) in (1u8..).zip(&schemas) {
                decoder.add_writer(SchemaId::Id(number.into()), schema);
                decoder.add_writer(SchemaId::Guid([number; 16]), schema);
                decoder.add_writer(SchemaId::Fingerprint(schema.fingerprint()), schema);
            }
            decoder
        },
        &rows,
    );
    let plain = PLAIN.get(usize::from(flags) / FRAMINGS.len() % PLAIN.len()).copied().unwrap_or(Plain::String);
    decode(|| Decoder::plain(plain), &rows);
}

fn bare(flags: u8) -> Options {
    let enums = if flags & 64 == 0 { Enums::Strings } else { Enums::Dictionary };
    Options { framing: Framing::Bare, enums, fields: None, recursion: 2 }
}

/// Parses a schema, and checks that its canonical form describes the same schema.
fn parsed(text: &[u8]) -> Option<Schema> {
    let schema = Schema::parse(&String::from_utf8_lossy(text)).ok()?;
    let canonical = schema.canonical();
    // If a name without a namespace is within a type that has a namespace, the canonical form does not distinguish it
    // from a name with the same namespace.
    if names_of_both_kinds(&canonical) {
        return Some(schema);
    }
    match Schema::parse(&canonical) {
        Ok(again) if again.fingerprint() == schema.fingerprint() && again.canonical() == canonical => {}
        Ok(again) => broken(&format!("{canonical} became {}", again.canonical())),
        Err(error) => broken(&format!("the canonical form {canonical} is rejected: {error}")),
    }
    Some(schema)
}

/// Returns true if some named types have a namespace and others have none.
fn names_of_both_kinds(canonical: &str) -> bool {
    fn walk(json: &serde_json::Value, seen: &mut [bool; 2]) {
        match json {
            serde_json::Value::Array(items) => items.iter().for_each(|item| walk(item, seen)),
            serde_json::Value::Object(object) => {
                if object.contains_key("fields") || object.contains_key("symbols") || object.contains_key("size") {
                    let name = object.get("name").and_then(serde_json::Value::as_str).unwrap_or_default();
                    let [bare, spaced] = seen;
                    *if name.contains('.') { spaced } else { bare } = true;
                }
                object.values().for_each(|value| walk(value, seen));
            }
            _ => {}
        }
    }
    let mut seen = [false; 2];
    if let Ok(json) = serde_json::from_str(canonical) {
        walk(&json, &mut seen);
    }
    seen == [true; 2]
}

/// Reads a length in two bytes, and as many bytes; fewer if the input ends before.
pub(super) fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, after) = rest.split_first_chunk::<2>()?;
    let (bytes, after) = after.split_at(usize::from(u16::from_be_bytes(*len)).min(after.len()));
    *rest = after;
    Some(bytes)
}

/// Reads bytes like `part`, but the length -1 stands for null.
fn value<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    match rest.split_first_chunk::<2>() {
        Some(([0xff, 0xff], after)) => {
            *rest = after;
            None
        }
        _ => Some(part(rest).unwrap_or_default()),
    }
}

#[derive(Debug)]
pub(super) struct Row<'a> {
    header: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
}

pub(super) fn rows<'a>(rest: &mut &'a [u8], max_rows: usize) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    while rows.len() < max_rows && !rest.is_empty() {
        rows.push(Row { header: None, value: value(rest) });
    }
    rows
}

/// Checks that each value results in one row, and that the row does not depend on the other values.
pub(super) fn decode(make: impl Fn() -> Decoder, rows: &[Row<'_>]) {
    let mut decoder = make();
    let bad: Vec<_> = rows.iter().map(|row| push(&mut decoder, row)).collect();
    assert_eq!(decoder.rows(), rows.len());
    let all = finished(&mut decoder);
    assert_eq!(all.len(), rows.len());
    drop(decoder);
    for (at, (row, bad)) in rows.iter().zip(bad).enumerate() {
        let mut decoder = make();
        let alone = push(&mut decoder, row);
        match (&bad, &alone) {
            (None, None) => {}
            (Some(bad), Some(alone)) if bad.row == at && (&bad.path, &bad.reason) == (&alone.path, &alone.reason) => {}
            _ => broken(&format!("among {} rows, row {at} is {bad:?}, and alone {alone:?}", rows.len())),
        }
        let alone = finished(&mut decoder);
        assert!(bad.is_none() || all.data_type().is_null() || all.is_null(at), "a bad row that is not null");
        if all.slice(at, 1).to_data() != alone.to_data() {
            broken(&format!("row {at} of {} is another one if it is alone", rows.len()));
        }
    }
}

fn push(decoder: &mut Decoder, row: &Row<'_>) -> Option<Box<BadValue>> {
    match decoder.push(row.value, row.header) {
        Ok(()) => None,
        Err(ValueError::Bad(bad)) => {
            assert!(!bad.to_string().is_empty());
            Some(bad)
        }
        Err(ValueError::Full) => broken("a column of a few rows is full"),
    }
}

fn finished(decoder: &mut Decoder) -> ArrayRef {
    let array = decoder.finish().unwrap_or_else(|error| broken(&format!("Arrow rejects the column: {error}")));
    assert_eq!(array.data_type(), decoder.data_type());
    if let Err(error) = array.to_data().validate_full() {
        broken(&format!("an invalid column: {error}"));
    }
    array
}
