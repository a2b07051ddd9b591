//! Arrow types for Avro types, and the decoded values.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Decimal256Type, Int32Type, IntervalMonthDayNanoType, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::i256;
use samsarrow_values::avro::Schema;
use samsarrow_values::{Decoder, Enums, Options};

use crate::random::{long, text};
use crate::{bare, decode, decode_error, decoder};

fn decode_one(schema: &str, value: &[u8]) -> ArrayRef {
    let (array, bad) = decode(&mut decoder(schema), [Some(value)]);
    assert_eq!(bad, []);
    array
}

#[test]
fn converts_all_avro_types() {
    for (schema, kind) in [
        ("null", "Null"),
        ("boolean", "Boolean"),
        ("int", "Int32"),
        ("long", "Int64"),
        ("float", "Float32"),
        ("double", "Float64"),
        ("bytes", "Binary"),
        ("string", "Utf8"),
        (r#"{"type": "fixed", "name": "F", "size": 3}"#, "FixedSizeBinary(3)"),
        (r#"{"type": "enum", "name": "E", "symbols": ["A"]}"#, "Utf8"),
        (r#"{"type": "string", "logicalType": "uuid"}"#, "Utf8"),
        (r#"{"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}"#, "Utf8"),
        (r#"{"type": "int", "logicalType": "date"}"#, "Date32"),
        (r#"{"type": "int", "logicalType": "time-millis"}"#, "Time32(ms)"),
        (r#"{"type": "long", "logicalType": "time-micros"}"#, "Time64(µs)"),
        (r#"{"type": "long", "logicalType": "timestamp-nanos"}"#, "Timestamp(ns, \"UTC\")"),
        (r#"{"type": "long", "logicalType": "local-timestamp-millis"}"#, "Timestamp(ms)"),
        (r#"{"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}"#, "Decimal128(38, 2)"),
        (r#"{"type": "bytes", "logicalType": "decimal", "precision": 39}"#, "Decimal256(39, 0)"),
        (r#"{"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}"#, "Interval(MonthDayNano)"),
        (r#"["null", "int"]"#, "Int32"),
        (r#"["int"]"#, "Int32"),
        // A logical type that does not match its underlying type is ignored.
        (r#"{"type": "string", "logicalType": "date"}"#, "Utf8"),
        (r#"{"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}"#, "Binary"),
        (
            r#"{"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 3}"#,
            "FixedSizeBinary(1)",
        ),
    ] {
        assert_eq!(decoder(schema).data_type().to_string(), kind, "{schema}");
    }
    let union = r#"["null", "long", {"type": "record", "name": "a.R", "fields": []}, {"type": "fixed", "name": "b.R", "size": 1}]"#;
    let kind = decoder(union).data_type().to_string();
    assert!(
        kind.contains("\"long\": Int64") && kind.contains("\"a.R\": Struct") && kind.contains("\"b.R\": Fixed"),
        "{kind}"
    );
}

#[test]
fn enforces_decimal_precision() {
    let narrow = r#"{"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}"#;
    let value = |bytes: &[u8]| {
        let mut out = Vec::new();
        text(bytes, &mut out);
        out
    };
    let decimal = |bytes: &[u8]| decode_one(narrow, &value(bytes)).as_primitive::<Decimal128Type>().value(0);
    assert_eq!(decimal(&[0xff]), -1);
    assert_eq!(decimal(&[0x27, 0x0f]), 9999);
    assert_eq!(decimal(&[[0xff; 30].as_slice(), &[0xd8, 0xf1]].concat()), -9999);
    assert_eq!(decimal(&[[0; 40].as_slice(), &[1]].concat()), 1);
    for bytes in [&[0x27, 0x10][..], &[0xd8, 0xf0], &[], &[1; 17], &[0x80; 40]] {
        assert_eq!(decode_error(narrow, &value(bytes)).1, "the decimal has more than 4 digits, or no bytes");
    }
    let wide = r#"{"type": "fixed", "name": "D", "size": 32, "logicalType": "decimal", "precision": 76}"#;
    let mut bytes = [0xff; 32];
    bytes[31] = 0xfe;
    assert_eq!(decode_one(wide, &bytes).as_primitive::<Decimal256Type>().value(0), i256::from_i128(-2));
    assert!(decode_error(wide, &[0x7f; 32]).1.contains("more than 76 digits"));
}

#[test]
fn converts_uuids_and_durations() {
    let uuid = r#"{"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}"#;
    let array = decode_one(uuid, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255]);
    assert_eq!(array.as_string::<i32>().value(0), "01020304-0506-0708-090a-0b0c0d0e0fff");
    let duration = r#"{"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}"#;
    let array = decode_one(duration, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
    let interval = array.as_primitive::<IntervalMonthDayNanoType>().value(0);
    assert_eq!((interval.months, interval.days, interval.nanoseconds), (1, 2, 3_000_000));
    assert!(decode_error(duration, &[0xff; 12]).1.contains("beyond Arrow's interval"));
}

#[test]
fn decodes_enums_as_text_or_dictionary() {
    let schema = r#"{"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["A", "BB"]}}"#;
    let value = [4, 2, 0, 0];
    assert_eq!(decode_one(schema, &value).as_list::<i32>().value(0).as_string::<i32>().value(0), "BB");
    let options = Options { enums: Enums::Dictionary, ..bare() };
    let mut decoder = Decoder::avro(&Schema::parse(schema).unwrap(), &options).unwrap();
    let (array, _) = decode(&mut decoder, [Some(&value[..])]);
    let items = array.as_list::<i32>().value(0);
    let items = items.as_dictionary::<Int32Type>();
    assert_eq!(items.keys().values(), &[1, 0]);
    assert_eq!(items.values().as_string::<i32>().value(1), "BB");
}

#[test]
fn unions_set_one_member() {
    let schema = r#"["null", "long", "string", {"type": "array", "items": "int"}]"#;
    let values = [&[0][..], &[2, 14], &[4, 2, b'x'], &[6, 2, 8, 0]];
    let (array, bad) = decode(&mut decoder(schema), values.map(Some));
    assert_eq!(bad, []);
    let union = array.as_struct();
    let set: Vec<_> = (0..4)
        .map(|row| (union.is_valid(row), union.columns().iter().map(|c| c.is_valid(row)).collect::<Vec<_>>()))
        .collect();
    assert_eq!(set[0], (false, vec![false; 3]));
    assert_eq!(set[1], (true, vec![true, false, false]));
    assert_eq!(set[2], (true, vec![false, true, false]));
    assert_eq!(set[3], (true, vec![false, false, true]));
    assert_eq!(union.column_by_name("string").unwrap().as_string::<i32>().value(2), "x");
}

#[test]
fn tombstones_are_null_rows() {
    let schema = r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "int"]}]}"#;
    let (array, bad) = decode(&mut decoder(schema), [None, Some(&[0][..]), Some(&[2, 2])]);
    assert_eq!((bad.len(), array.len(), array.null_count()), (0, 3, 1));
    assert_eq!(array.as_struct().column(0).null_count(), 2);
}

#[test]
fn time_units_are_only_refined() {
    let time = |unit| format!(r#"{{"type": "long", "logicalType": "timestamp-{unit}"}}"#);
    let writer = Schema::parse(&time("millis")).unwrap();
    let mut decoder = Decoder::avro(&Schema::parse(&time("micros")).unwrap(), &Options::default()).unwrap();
    decoder.add_writer(samsarrow_values::SchemaId::Id(1), &writer);
    let framed = |number: i64| {
        let mut out = vec![0, 0, 0, 0, 1];
        long(number, &mut out);
        out
    };
    let (array, bad) = decode(&mut decoder, [Some(&framed(-7)[..]), Some(&framed(i64::MAX))]);
    assert_eq!(array.as_primitive::<TimestampMicrosecondType>().value(0), -7000);
    assert_eq!(bad[0].reason, "the time is out of the range of the reader's unit");
    let mut decoder = Decoder::avro(&writer, &Options::default()).unwrap();
    decoder.add_writer(samsarrow_values::SchemaId::Id(1), &Schema::parse(&time("micros")).unwrap());
    let (_, bad) = decode(&mut decoder, [Some(&framed(1)[..])]);
    assert!(bad[0].reason.contains("cannot be read as"), "{}", bad[0].reason);
}
