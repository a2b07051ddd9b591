//! Encodes Arrow arrays as Avro, decodes the result, and compares it with the input. Also covers type conversions,
//! defaults and framings.

use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Int32Builder, LargeListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Int8Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Date64Array, Decimal32Array, Decimal128Array, Decimal256Array,
    DictionaryArray, FixedSizeBinaryArray, Float32Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    LargeBinaryArray, LargeStringArray, NullArray, PrimitiveArray, StringArray, StringViewArray, StructArray,
    Time32SecondArray, Time64NanosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
    TimestampSecondArray, UInt8Array, UInt32Array,
};
use arrow_buffer::{IntervalMonthDayNano, i256};
use samsarrow_values::avro::Schema;
use samsarrow_values::primitive_serdes::Plain;
use samsarrow_values::{Decoder, Encoder, Framing, Options, SchemaId};

use crate::random::{Random, Schemas, value};
use crate::{decode, decoder};

/// Encodes a column without frames.
pub(crate) fn encode(schema: &str, column: &dyn Array) -> BinaryArray {
    let encoder = Encoder::avro(&Schema::parse(schema).unwrap(), column.data_type(), Framing::Bare, None).unwrap();
    let mut arrays = encoder.encode(column).unwrap();
    assert_eq!(arrays.len(), 1);
    arrays.remove(0)
}

/// Decodes values that must all be valid.
fn read(schema: &str, values: &BinaryArray) -> ArrayRef {
    let (array, bad) = decode(&mut decoder(schema), values.iter());
    assert_eq!(bad, [], "{schema}");
    array
}

#[test]
fn random_values_round_trip() {
    for seed in 0..500 {
        let random = &mut Random(seed);
        let schema = Schemas::default().record(random, 3);
        let text = schema.to_string();
        let values: Vec<Option<Vec<u8>>> = (0..5)
            .map(|row| {
                let mut bytes = Vec::new();
                value(&schema, random, &mut bytes);
                (row != 3).then_some(bytes)
            })
            .collect();
        let (column, bad) = decode(&mut decoder(&text), values.iter().map(Option::as_deref));
        assert_eq!(bad, [], "{seed}");
        let written = encode(&text, &column);
        assert_eq!(&read(&text, &written), &column, "{seed}: {text}");
        // Encoding a slice of the column results in a slice of the values.
        let part = encode(&text, &column.slice(2, 3));
        assert_eq!(part.iter().collect::<Vec<_>>(), written.iter().skip(2).collect::<Vec<_>>(), "{seed}: {text}");
    }
}

fn optional(of: &str) -> String {
    format!(r#"["null", {of}]"#)
}

/// Checks that `column`, encoded with a schema and decoded again, equals `expected`.
fn assert_round_trip(schema: &str, column: &dyn Array, expected: &dyn Array) {
    assert_eq!(&*read(schema, &encode(schema, column)), expected, "{schema}");
    // The same with the column as a nullable field of a record.
    let record =
        format!(r#"{{"type": "record", "name": "Outer", "fields": [{{"name": "a", "type": {}}}]}}"#, optional(schema));
    let field = Arc::new(arrow_schema::Field::new("a", column.data_type().clone(), true));
    let outer = StructArray::new(vec![field].into(), vec![arrow_array::make_array(column.to_data())], None);
    assert_eq!(&**read(&record, &encode(&record, &outer)).as_struct().column(0), expected, "{record}");
}

#[test]
fn widens_numbers_without_loss() {
    assert_round_trip(r#""int""#, &UInt8Array::from(vec![Some(255), None]), &Int32Array::from(vec![Some(255), None]));
    assert_round_trip(r#""long""#, &Int16Array::from(vec![-3]), &Int64Array::from(vec![-3]));
    assert_round_trip(r#""long""#, &UInt32Array::from(vec![u32::MAX]), &Int64Array::from(vec![i64::from(u32::MAX)]));
    assert_round_trip(r#""float""#, &Int16Array::from(vec![-3]), &Float32Array::from(vec![-3.0]));
    let half = PrimitiveArray::<Float16Type>::from_iter_values([Default::default()]);
    assert_round_trip(r#""float""#, &half, &Float32Array::from(vec![0.0]));
    assert_round_trip(
        r#""double""#,
        &Int32Array::from(vec![i32::MAX]),
        &arrow_array::Float64Array::from(vec![2147483647.0]),
    );
    assert_round_trip(
        r#""double""#,
        &Float32Array::from(vec![0.1]),
        &arrow_array::Float64Array::from(vec![f64::from(0.1_f32)]),
    );
    for value in [0, 1, -1, 63, 64, -64, -65, 8191, 8192, i64::MAX, i64::MIN] {
        assert_round_trip(r#""long""#, &Int64Array::from(vec![value]), &Int64Array::from(vec![value]));
    }
}

#[test]
fn accepts_all_text_and_byte_layouts() {
    let long = "a text of more than twelve bytes";
    let expected = StringArray::from(vec![Some("añ"), None, Some(long), Some("")]);
    let texts = || expected.iter();
    assert_round_trip(r#""string""#, &expected, &expected);
    assert_round_trip(r#""string""#, &texts().collect::<LargeStringArray>(), &expected);
    assert_round_trip(r#""string""#, &texts().collect::<StringViewArray>(), &expected);
    assert_round_trip(r#""string""#, &texts().collect::<DictionaryArray<Int8Type>>(), &expected);
    let bytes: BinaryArray = texts().map(|text| text.map(str::as_bytes)).collect();
    assert_round_trip(r#""bytes""#, &bytes, &bytes);
    assert_round_trip(r#""bytes""#, &bytes.iter().collect::<LargeBinaryArray>(), &bytes);
    assert_round_trip(r#""bytes""#, &bytes.iter().collect::<BinaryViewArray>(), &bytes);
    let fixed = FixedSizeBinaryArray::try_from_iter([b"abc", b"def"].iter()).unwrap();
    let schema = r#"{"type": "fixed", "name": "F", "size": 3}"#;
    assert_round_trip(schema, &fixed, &fixed);
    assert_round_trip(schema, &BinaryArray::from_iter_values([b"abc", b"def"]), &fixed);
    assert_round_trip(r#""bytes""#, &fixed, &BinaryArray::from_iter_values([b"abc", b"def"]));
}

#[test]
fn encodes_enums_from_text_and_dictionaries() {
    let expected = StringArray::from(vec![Some("view"), None, Some("click"), Some("view")]);
    for more in [0, 30] {
        let symbols: Vec<_> = ["\"click\"".to_owned(), "\"view\"".to_owned()]
            .into_iter()
            .chain((0..more).map(|at| format!("\"S{at}\"")))
            .collect();
        let schema = format!(r#"{{"type": "enum", "name": "E", "symbols": [{}]}}"#, symbols.join(", "));
        assert_round_trip(&schema, &expected, &expected);
        assert_round_trip(&schema, &expected.iter().collect::<DictionaryArray<Int32Type>>(), &expected);
    }
    // The enum does not have the symbol `other`. The slice does not use it, although its dictionary contains it.
    let column: DictionaryArray<Int32Type> = [Some("other"), Some("view")].into_iter().collect();
    let schema = r#"{"type": "enum", "name": "E", "symbols": ["click", "view"]}"#;
    assert_eq!(encode(schema, &column.slice(1, 1)).value(0), [2]);
}

#[test]
fn converts_time_units() {
    let schema = |kind: &str, logical: &str| format!(r#"{{"type": "{kind}", "logicalType": "{logical}"}}"#);
    let utc = |values: Vec<Option<i64>>| TimestampMicrosecondArray::from(values).with_timezone("UTC");
    let seconds = TimestampSecondArray::from(vec![Some(-1), None]).with_timezone("+02:00");
    assert_round_trip(&schema("long", "timestamp-micros"), &seconds, &utc(vec![Some(-1_000_000), None]));
    let nanos = TimestampNanosecondArray::from(vec![-7_000]);
    assert_round_trip(&schema("long", "local-timestamp-micros"), &nanos, &TimestampMicrosecondArray::from(vec![-7]));
    let date = arrow_array::Date32Array::from(vec![-3]);
    assert_round_trip(&schema("int", "date"), &date, &date);
    assert_round_trip(&schema("int", "date"), &Date64Array::from(vec![-3 * 86_400_000]), &date);
    let millis = arrow_array::Time32MillisecondArray::from(vec![7_000]);
    assert_round_trip(&schema("int", "time-millis"), &millis, &millis);
    assert_round_trip(&schema("int", "time-millis"), &Time32SecondArray::from(vec![7]), &millis);
    assert_round_trip(&schema("int", "time-millis"), &Time64NanosecondArray::from(vec![7_000_000_000]), &millis);
    let micros = arrow_array::Time64MicrosecondArray::from(vec![7_000]);
    assert_round_trip(&schema("long", "time-micros"), &Time64NanosecondArray::from(vec![7_000_000]), &micros);
    let interval = |nanos| IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(1, 2, nanos)]);
    let duration = r#"{"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}"#;
    assert_round_trip(duration, &interval(3_000_000), &interval(3_000_000));
}

#[test]
fn writes_decimals_in_minimal_bytes() {
    let schema = r#"{"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}"#;
    let fixed = r#"{"type": "fixed", "name": "D", "size": 17, "logicalType": "decimal", "precision": 38, "scale": 2}"#;
    let most = 10_i128.pow(38) - 1;
    for (value, bytes) in
        [(0, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (32767, 2), (32768, 3), (most, 16), (-most, 16)]
    {
        let column = Decimal128Array::from(vec![value]).with_precision_and_scale(38, 2).unwrap();
        assert_eq!(encode(schema, &column).value(0).len(), 1 + bytes, "{value}");
        assert_round_trip(schema, &column, &column);
        assert_round_trip(fixed, &column, &column);
        let wide = Decimal256Array::from(vec![i256::from_i128(value)]).with_precision_and_scale(60, 2).unwrap();
        assert_round_trip(schema, &wide, &column);
    }
    let small = Decimal32Array::from(vec![-15]).with_precision_and_scale(4, 2).unwrap();
    assert_round_trip(schema, &small, &Decimal128Array::from(vec![-15]).with_precision_and_scale(38, 2).unwrap());
    let wide = r#"{"type": "bytes", "logicalType": "decimal", "precision": 76}"#;
    let most = i256::from_i128(10).wrapping_pow(76) - i256::ONE;
    let column = Decimal256Array::from(vec![most, -most]).with_precision_and_scale(76, 0).unwrap();
    assert_round_trip(wide, &column, &column);
}

#[test]
fn encodes_uuids_from_text_and_bytes() {
    let text = StringArray::from(vec!["01020304-0506-0708-090a-0b0c0d0e0fff"]);
    let bytes = FixedSizeBinaryArray::try_from_iter([[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255]].iter());
    for schema in [
        r#"{"type": "string", "logicalType": "uuid"}"#,
        r#"{"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}"#,
    ] {
        assert_round_trip(schema, &text, &text);
        assert_round_trip(schema, bytes.as_ref().unwrap(), &text);
    }
}

#[test]
fn encodes_all_list_types() {
    let expected = arrow_array::ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), Some(2)]),
        None,
        Some(vec![Some(3), Some(4)]),
    ]);
    let schema = r#"{"type": "array", "items": ["null", "int"]}"#;
    assert_round_trip(schema, &expected, &expected);
    let mut large = LargeListBuilder::new(Int32Builder::new());
    let mut fixed = FixedSizeListBuilder::new(Int32Builder::new(), 2);
    for (at, row) in expected.iter().enumerate() {
        match row {
            Some(items) => {
                large.values().extend(items.as_primitive::<Int32Type>().iter());
                fixed.values().extend(items.as_primitive::<Int32Type>().iter());
            }
            None => fixed.values().append_nulls(2),
        }
        large.append(expected.is_valid(at));
        fixed.append(expected.is_valid(at));
    }
    assert_round_trip(schema, &large.finish(), &expected);
    let fixed = fixed.finish();
    assert_round_trip(schema, &fixed, &expected);
    assert_round_trip(schema, &fixed.slice(1, 2), &expected.slice(1, 2));
}

#[test]
fn encodes_unions_from_a_member_column() {
    let schema = r#"["null", "long", "int", {"type": "enum", "name": "E", "symbols": ["x"]}, "string"]"#;
    let first = |column: &dyn Array| encode(schema, column).value(0).to_vec();
    assert_eq!(first(&Int32Array::from(vec![1])), [4, 2]);
    assert_eq!(first(&Int64Array::from(vec![1])), [2, 2]);
    assert_eq!(first(&UInt32Array::from(vec![1])), [2, 2]);
    assert_eq!(first(&StringArray::from(vec!["x"])), [8, 2, b'x']);
    assert_eq!(first(&StringViewArray::from(vec!["x"])), [8, 2, b'x']);
    assert_eq!(first(&[Some("x")].into_iter().collect::<DictionaryArray<Int32Type>>()), [8, 2, b'x']);
    let record = format!(r#"{{"type": "record", "name": "R", "fields": [{{"name": "a", "type": {schema}}}]}}"#);
    let nothing: ArrayRef = Arc::new(NullArray::new(1));
    let row = StructArray::try_from(vec![("a", nothing)]).unwrap();
    assert_eq!(encode(&record, &row).value(0), [0]);
}

#[test]
fn missing_columns_use_defaults() {
    let schema = r#"{"type": "record", "name": "R", "fields": [
        {"name": "b", "type": "string", "default": "x"}, {"name": "a", "type": "int"}]}"#;
    let a: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let rows = StructArray::try_from(vec![("a", a)]).unwrap();
    assert_eq!(encode(schema, &rows).iter().collect::<Vec<_>>(), [Some(&[2, b'x', 2][..]), Some(&[2, b'x', 4])]);
}

#[test]
fn frames_round_trip() {
    let schema = Schema::parse(r#""string""#).unwrap();
    let column = StringArray::from(vec![Some("one"), None, Some("")]);
    let (id, version) = (SchemaId::Id(258), SchemaId::Guid(*b"0123456789abcdef"));
    for (framing, id, first) in [
        (Framing::Auto, Some(id), &b"\0\0\0\x01\x02\x06one"[..]),
        (Framing::Confluent, Some(id), b"\0\0\0\x01\x02\x06one"),
        (Framing::Apicurio, Some(id), b"\0\0\0\0\0\0\0\x01\x02\x06one"),
        (Framing::SingleObject, None, b"\xc3\x01\xc7\x03\x45\x63\x72\x48\x01\x8f\x06one"),
        (Framing::Glue, Some(version), b"\x03\x000123456789abcdef\x06one"),
        (Framing::Bare, None, b"\x06one"),
    ] {
        let encoder = Encoder::avro(&schema, column.data_type(), framing, id).unwrap();
        let values = encoder.encode(&column).unwrap().remove(0);
        assert_eq!(values.value(0), first, "{framing:?}");
        assert!(values.is_null(1));
        let mut decoder = Decoder::avro(&schema, &Options { framing, ..Options::default() }).unwrap();
        decoder.add_writer(SchemaId::Id(258), &schema);
        decoder.add_writer(version, &schema);
        let (array, bad) = decode(&mut decoder, values.iter());
        assert_eq!((bad.len(), array.as_string::<i32>()), (0, &column), "{framing:?}");
    }
    let bytes = Schema::parse("bytes").unwrap();
    let column = BinaryArray::from_iter_values([vec![7; 300], vec![]]);
    let encoder = Encoder::avro(&bytes, column.data_type(), Framing::Confluent, Some(SchemaId::Id(1))).unwrap();
    let values = encoder.encode(&column).unwrap().remove(0);
    assert_eq!((values.value(0).len(), values.value(1)), (305, &b"\0\0\0\0\x01"[..]));
    assert_eq!(encode(r#""bytes""#, &column).value(1), [0]);
}

#[test]
fn splits_arrays_before_offset_overflow() {
    let column = StringArray::from(vec![Some("0123456789"), None, Some("abcdefghij"), Some("x"), None]);
    let schema = Schema::parse("string").unwrap();
    let encoder = Encoder::avro(&schema, column.data_type(), Framing::Bare, None).unwrap().with_most_bytes(12);
    let arrays = encoder.encode(&column).unwrap();
    assert_eq!(arrays.iter().map(Array::len).collect::<Vec<_>>(), [2, 1, 2]);
    let got: Vec<_> = arrays.iter().flat_map(|array| array.iter()).collect();
    assert_eq!(got, encode(r#""string""#, &column).iter().collect::<Vec<_>>());
}

#[test]
fn primitive_types_round_trip() {
    let texts = StringArray::from(vec![Some("Grüße"), None, Some("")]);
    let uuid = StringArray::from(vec!["0188d1a6-b1c5-7c3e-9f45-6F0e8b1f2a3d"]);
    let columns: [(&str, ArrayRef); 11] = [
        ("string", Arc::new(texts.clone())),
        ("string", Arc::new(texts.iter().collect::<LargeStringArray>())),
        ("string", Arc::new(texts.iter().collect::<StringViewArray>())),
        ("string", Arc::new(texts.iter().collect::<DictionaryArray<Int32Type>>())),
        ("uuid", Arc::new(uuid)),
        ("short", Arc::new(Int16Array::from(vec![Some(-2), None]))),
        ("int", Arc::new(Int32Array::from(vec![i32::MIN]))),
        ("long", Arc::new(Int64Array::from(vec![i64::MIN]))),
        ("float", Arc::new(Float32Array::from(vec![1.5]))),
        ("double", Arc::new(arrow_array::Float64Array::from(vec![-2.5]))),
        ("boolean", Arc::new(arrow_array::BooleanArray::from(vec![true, false]))),
    ];
    for (name, column) in columns {
        let plain = Plain::from_name(name).unwrap();
        let values = Encoder::plain(plain, column.data_type()).unwrap().encode(&column).unwrap().remove(0);
        let (got, bad) = decode(&mut Decoder::plain(plain), values.iter());
        assert_eq!((bad.len(), got.null_count()), (0, column.null_count()), "{name}");
        let again = Encoder::plain(plain, got.data_type()).unwrap().encode(&got).unwrap().remove(0);
        assert_eq!(again, values, "{name}");
        if !matches!(name, "string") {
            assert_eq!(&got, &column);
        } else {
            assert_eq!(got.as_string::<i32>(), &texts);
        }
    }
    let short = Encoder::plain(Plain::Long, &arrow_schema::DataType::Int8).unwrap();
    let values = short.encode(&arrow_array::Int8Array::from(vec![-1])).unwrap().remove(0);
    assert_eq!(values.value(0), [0xff; 8]);
}
