//! Text output of batches with the decoder's schema.

mod reference;

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, ListBuilder, StringBuilder, StructBuilder};
use arrow_array::{
    ArrayRef, BinaryArray, DictionaryArray, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};

use arrow_schema::{DataType, Field, Schema};

use super::*;
use crate::schema::{SchemaOptions, batch_schema, header_fields, header_item};

/// Key, value and headers of a row.
type TestRow<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, &'a [(&'a str, Option<&'a [u8]>)]);

fn batch(rows: &[TestRow<'_>]) -> RecordBatch {
    let mut headers = ListBuilder::new(StructBuilder::from_fields(header_fields(), 0)).with_field(header_item());
    for (_, _, row_headers) in rows {
        for (name, value) in *row_headers {
            let entry = headers.values();
            entry.field_builder::<StringBuilder>(0).unwrap().append_value(name);
            entry.field_builder::<BinaryBuilder>(1).unwrap().append_option(*value);
            entry.append(true);
        }
        headers.append(true);
    }
    let count = rows.len();
    let topics = DictionaryArray::new(Int32Array::from(vec![0; count]), Arc::new(StringArray::from(vec!["t\"1"])));
    let times = TimestampMillisecondArray::from(vec![Some(1_793_527_200_123); count]).with_timezone("UTC");
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<BinaryArray>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<BinaryArray>()),
        Arc::new(topics),
        Arc::new(Int32Array::from(vec![3; count])),
        Arc::new((7..).take(count).collect::<Int64Array>()),
        Arc::new(times),
        Arc::new(Int8Array::from(vec![0; count])),
        Arc::new(headers.finish()),
    ];
    let schema = batch_schema(&SchemaOptions { include_headers: true, ..Default::default() });
    RecordBatch::try_new(schema, columns).unwrap()
}

/// Writes the batch in parts of at least `limit` bytes.
fn written(batch: &RecordBatch, format: &LineFormat, limit: usize) -> Vec<u8> {
    let (mut text, mut all) = (Text::new(batch).unwrap(), Vec::new());
    loop {
        let mut part = Vec::new();
        if !text.write(format, limit, &mut part) {
            assert!(part.is_empty());
            return all;
        }
        all.extend(part);
    }
}

fn text(rows: &[TestRow<'_>], format: &LineFormat) -> String {
    String::from_utf8(written(&batch(rows), format, 1 << 20)).unwrap()
}

fn templated(rows: &[TestRow<'_>], template: &str) -> String {
    text(rows, &LineFormat::Template(Template::parse(template).unwrap()))
}

#[test]
fn rows_of_share_groups_have_their_delivery_count() {
    let rows: &[TestRow<'_>] = &[(None, Some(b"v"), &[]), (None, None, &[])];
    let batch = batch(rows);
    let mut fields: Vec<_> = batch.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("delivery_count", DataType::Int16, true)));
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(Int16Array::from(vec![Some(2), None])));
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let rendered = |format: &LineFormat| String::from_utf8(written(&batch, format, 1 << 20)).unwrap();
    let template = LineFormat::Template(Template::parse("{offset}:{delivery_count}").unwrap());
    assert_eq!(rendered(&template), "7:2\n8:\n");
    assert_eq!(templated(rows, "{offset}:{delivery_count}"), "7:\n8:\n");
    for format in [LineFormat::Ndjson, LineFormat::JsonItems] {
        let text = rendered(&format);
        assert!(text.contains("\"offset\":7,\"delivery_count\":2,") && text.contains(",\"delivery_count\":null,"));
    }
    // An envelope is a record to produce again.
    assert_eq!(rendered(&LineFormat::Envelope), text(rows, &LineFormat::Envelope));
}

const ROWS: &[TestRow<'_>] = &[
    (Some(b"k"), Some(b"{\"a\":\n 1.50}"), &[("h", Some(b"x")), ("h", None), ("h", Some(b"\xff"))]),
    (None, Some(b"12"), &[]),
    (Some(b""), None, &[]),
    (Some(b"\xfe"), Some(b"\xff\""), &[]),
    (Some(b"{}"), Some(b"line\n\"two\"\x01"), &[]),
];

#[test]
fn value_and_raw_formats() {
    assert_eq!(text(&ROWS[1..3], &LineFormat::Value), "12\n\n");
    assert_eq!(text(&ROWS[..2], &LineFormat::Raw), "{\"a\":\n 1.50}12");
}

#[test]
fn ndjson_embeds_containers_and_quotes_text() {
    let head = |offset| {
        format!(
            "{{\"topic\":\"t\\\"1\",\"partition\":3,\"offset\":{offset},\"timestamp\":\"2026-11-01T10:00:00.123Z\","
        )
    };
    let expected = [
        "\"headers\":[[\"h\",\"x\"],[\"h\",null],[\"h\",{\"base64\":\"/w==\"}]],\"key\":\"k\",\"value\":{\"a\":  1.50}}",
        "\"headers\":[],\"key\":null,\"value\":\"12\"}",
        "\"headers\":[],\"key\":\"\",\"value\":null}",
        "\"headers\":[],\"key_base64\":\"/g==\",\"value_base64\":\"/yI=\"}",
        "\"headers\":[],\"key\":\"{}\",\"value\":\"line\\n\\\"two\\\"\\u0001\"}",
    ];
    let lines: Vec<String> = expected.iter().enumerate().map(|(at, line)| head(7 + at) + line).collect();
    assert_eq!(text(ROWS, &LineFormat::Ndjson).lines().collect::<Vec<_>>(), lines);
    assert_eq!(text(ROWS, &LineFormat::JsonItems), lines.iter().map(|l| format!(",\n{l}")).collect::<String>());
}

#[test]
fn envelope_is_lossless() {
    let lines = text(ROWS, &LineFormat::Envelope);
    assert_eq!(
        lines.lines().next().unwrap(),
        "{\"topic\":\"t\\\"1\",\"partition\":3,\"offset\":7,\"timestamp\":1793527200123,\"timestamp_type\":0,\
         \"headers\":[[\"h\",\"eA==\"],[\"h\",null],[\"h\",\"/w==\"]],\"key\":\"aw==\",\"value\":\"eyJhIjoKIDEuNTB9\"}"
    );
    let third: serde_json::Value = serde_json::from_str(lines.lines().nth(2).unwrap()).unwrap();
    assert_eq!((&third["key"], &third["value"]), (&"".into(), &serde_json::Value::Null));
}

#[test]
fn templates_format_fields() {
    let shown = templated(&ROWS[..1], "{topic}\\t{partition}@{offset} {timestamp} {timestamp:ms} {key} {{{size}}}\\\\");
    assert_eq!(shown, "t\"1\t3@7 2026-11-01T10:00:00.123Z 1793527200123 k {13}\\\n");
    assert_eq!(templated(&ROWS[3..4], "{key:hex} {value:base64} {value:json}\\c"), "fe /yI= \"\u{fffd}\\\"\"");
    assert_eq!(templated(&ROWS[2..3], "[{key:base64}{value}{value:hex}{value:json}{header.h}]"), "[null]\n");
    assert_eq!(
        templated(&ROWS[..1], "{header.h:hex}{headers}\\c"),
        "ff[[\"h\",\"x\"],[\"h\",null],[\"h\",{\"base64\":\"/w==\"}]]"
    );
}

#[test]
fn rejects_invalid_templates() {
    for (text, expected) in [
        ("{valeu}", "there is no field {valeu}"),
        ("{value:yaml}", "there is no field {value:yaml}"),
        ("{offset:hex}", "there is no field {offset:hex}"),
        ("{header.}", "there is no field {header.}"),
        ("{value", "there is no } after {value"),
        ("value}", "there is a } without a {"),
        ("\\q", "unknown escape \\q"),
        ("x\\", "it ends in a backslash"),
    ] {
        let error = Template::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected) && error.contains("{header.NAME}"), "{error}");
    }
    assert!(Template::parse("{header.a}").unwrap().wants_headers());
    assert!(!Template::parse("{key}").unwrap().wants_headers());
}

#[test]
fn timestamps_are_iso_8601() {
    for (ms, expected) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "+010000-01-01T00:00:00.000Z"),
        (-62_167_219_200_001, "-000001-12-31T23:59:59.999Z"),
        (i64::MAX, "+292278994-08-17T07:12:55.807Z"),
        (i64::MIN, "-292275055-05-16T16:47:04.192Z"),
    ] {
        let mut out = Vec::new();
        time::iso(ms, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn numbers_match_to_string() {
    for value in [0, 7, 10, -1, i64::MAX, i64::MIN] {
        let mut out = Vec::new();
        number(Some(value), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
    }
}

#[test]
fn rejects_batches_without_the_columns() {
    let some = batch(ROWS).project(&[0, 1, 2]).unwrap();
    assert!(Text::new(&some).unwrap_err().to_string().contains("partition"));
}
