//! Supported and rejected types of the encoder's columns.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, ListBuilder, MapBuilder, StringBuilder, StringDictionaryBuilder, StructBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type, TimestampMillisecondType, UInt64Type};
use arrow_array::*;
use arrow_schema::{DataType, Field, Fields};
use samsarrow_arrow::{
    Columns, DecodeOptions, EncodeError, EncodeOptions, Layout, Projection, RowReader, decode_batches, encode_batches,
};

const VALUES: [Option<&str>; 5] = [Some("one"), None, Some(""), Some("a value of more than twelve bytes"), Some("one")];

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn there_and_back(data: &RecordBatch, columns: &Columns) -> RecordBatch {
    let wire = encode_batches(data, columns, &EncodeOptions::default()).unwrap();
    decode_batches(wire.into(), DecodeOptions { include_headers: true, ..DecodeOptions::default() }).unwrap()
}

fn all_types() -> Vec<ArrayRef> {
    let bytes: Vec<_> = VALUES.iter().map(|v| v.map(str::as_bytes)).collect();
    vec![
        Arc::new(StringArray::from(VALUES.to_vec())),
        Arc::new(LargeStringArray::from(VALUES.to_vec())),
        Arc::new(StringViewArray::from(VALUES.to_vec())),
        Arc::new(BinaryArray::from(bytes.clone())),
        Arc::new(LargeBinaryArray::from(bytes.clone())),
        Arc::new(BinaryViewArray::from(bytes)),
        Arc::new(DictionaryArray::<Int8Type>::from_iter(VALUES)),
        Arc::new(DictionaryArray::<UInt64Type>::from_iter(VALUES)),
        {
            // Some rows are null because their value in the dictionary is null.
            let keys = Int32Array::from(vec![Some(0), Some(1), Some(2), Some(3), Some(0)]);
            let values: ArrayRef = Arc::new(LargeStringArray::from(VALUES[..4].to_vec()));
            Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values).unwrap())
        },
    ]
}

#[test]
fn encodes_all_key_and_value_types() {
    for array in all_types() {
        let name = array.data_type().to_string();
        let out = there_and_back(&table(vec![("key", array.clone()), ("value", array.clone())]), &Columns::default());
        for column in ["key", "value"] {
            let got: Vec<_> = out[column].as_binary::<i32>().iter().collect();
            assert_eq!(got, VALUES.map(|v| v.map(str::as_bytes)), "{name}");
        }
        // The buffers of a slice begin before its first row.
        let rest = table(vec![("value", array.slice(2, 3))]);
        let out = there_and_back(&rest, &Columns::default());
        assert_eq!(out["key"].null_count(), 3);
        let got: Vec<_> = out["value"].as_binary::<i32>().iter().collect();
        assert_eq!(got, [Some(&b""[..]), VALUES[3].map(str::as_bytes), Some(b"one")], "{name}");
    }
    let fixed: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter([[1u8, 2], [3, 4]].into_iter()).unwrap());
    let out = there_and_back(
        &table(vec![("v", fixed), ("key", Arc::new(NullArray::new(2)))]),
        &Columns { value: Some("v".into()), ..Columns::default() },
    );
    assert_eq!(out["value"].as_binary::<i32>().value(1), [3, 4]);
    assert_eq!(out["key"].null_count(), 2);
}

#[test]
fn encodes_timestamps_of_every_unit() {
    let value: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let arrays: [ArrayRef; 6] = [
        Arc::new(TimestampSecondArray::from(vec![Some(5), None, Some(9)])),
        Arc::new(TimestampMillisecondArray::from(vec![Some(5000), None, Some(9000)]).with_timezone("UTC")),
        Arc::new(TimestampSecondArray::from(vec![Some(5), None, Some(9)])),
        Arc::new(TimestampMicrosecondArray::from(vec![Some(5_000_999), None, Some(9_000_000)])),
        Arc::new(TimestampNanosecondArray::from(vec![Some(5_000_999_999), None, Some(9_000_000_000)])),
        Arc::new(Int64Array::from(vec![Some(5000), None, Some(9000)])),
    ];
    let columns = Columns { timestamp: Some("t".into()), ..Columns::default() };
    for array in arrays {
        let data = table(vec![("value", value.clone()), ("t", array)]);
        let options = EncodeOptions { default_timestamp: 77, ..EncodeOptions::default() };
        let wire = encode_batches(&data, &columns, &options).unwrap();
        let out = decode_batches(wire.into(), DecodeOptions::default()).unwrap();
        assert_eq!(out["timestamp"].as_primitive::<TimestampMillisecondType>().values(), &[5000, 77, 9000]);
    }
    // -1 stands for a record without a timestamp, as in Kafka's own messages.
    let none: ArrayRef = Arc::new(Int64Array::from(vec![Some(5000), Some(-1), None]));
    let data = table(vec![("value", value.clone()), ("t", none)]);
    let options = EncodeOptions { default_timestamp: 77, ..EncodeOptions::default() };
    let wire = encode_batches(&data, &columns, &options).unwrap();
    let out = decode_batches(wire.into(), DecodeOptions::default()).unwrap();
    assert_eq!(out["timestamp"].as_primitive::<TimestampMillisecondType>().values(), &[5000, -1, 77]);
    for bad in [
        Arc::new(TimestampSecondArray::from(vec![1, i64::MAX, 2])) as ArrayRef,
        Arc::new(Int64Array::from(vec![1, -2, 2])),
    ] {
        let error = RowReader::new(&table(vec![("value", value.clone()), ("t", bad)]), &columns).unwrap_err();
        assert!(matches!(error, EncodeError::Row { row: 1, .. }), "{error}");
    }
}

fn headers() -> ArrayRef {
    let fields =
        Fields::from(vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)]);
    let mut list = ListBuilder::new(StructBuilder::from_fields(fields, 0));
    type Headers<'a> = &'a [(&'a str, Option<&'a [u8]>)];
    let rows: [Option<Headers<'_>>; 4] =
        [Some(&[("a", Some(b"1")), ("b", None), ("a", Some(b""))]), None, Some(&[]), Some(&[("", Some(b"x"))])];
    for row in rows {
        for (key, value) in row.unwrap_or_default() {
            let entry = list.values();
            entry.field_builder::<StringBuilder>(0).unwrap().append_value(key);
            entry.field_builder::<BinaryBuilder>(1).unwrap().append_option(*value);
            entry.append(true);
        }
        list.append(row.is_some());
    }
    Arc::new(list.finish())
}

#[test]
fn headers_keep_order_and_repeated_names() {
    let value: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
    let out = there_and_back(&table(vec![("value", value.clone()), ("headers", headers())]), &Columns::default());
    let column = out["headers"].as_list::<i32>();
    assert_eq!(column.offsets().iter().copied().collect::<Vec<_>>(), [0, 3, 3, 3, 4]);
    assert_eq!(column.null_count(), 0, "a record without headers has an empty list");
    let entries = column.values().as_struct();
    assert_eq!(entries["key"].as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["a", "b", "a", ""]);
    let values: Vec<_> = entries["value"].as_binary::<i32>().iter().collect();
    assert_eq!(values, [Some(&b"1"[..]), None, Some(b""), Some(b"x")]);

    // Decoded data can be encoded again. Its columns partition and timestamp describe the source, so they are not used.
    let again = there_and_back(&out, &Columns::default());
    assert_eq!(again["headers"].as_list::<i32>(), out["headers"].as_list::<i32>());
    // A sliced batch, with headers in a map.
    let sliced = table(vec![("value", value), ("headers", headers())]).slice(2, 2);
    assert_eq!(there_and_back(&sliced, &Columns::default())["headers"].as_list::<i32>().value_length(1), 1);
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    map.keys().append_value("k");
    map.values().append_value("v");
    map.append(true).unwrap();
    let data = table(vec![("value", Arc::new(StringArray::from(vec!["a"]))), ("headers", Arc::new(map.finish()))]);
    let out = there_and_back(&data, &Columns::default());
    let entry = out["headers"].as_list::<i32>().value(0);
    assert_eq!(entry.as_struct()["value"].as_binary::<i32>().value(0), b"v");
}

#[test]
fn encodes_partitions_of_any_integer_type() {
    let value: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let columns = Columns { partition: Some("p".into()), ..Columns::default() };
    let arrays: [ArrayRef; 3] = [
        Arc::new(Int32Array::from(vec![Some(3), None])),
        Arc::new(Int64Array::from(vec![Some(3), None])),
        Arc::new(UInt8Array::from(vec![Some(3), None])),
    ];
    for array in arrays {
        let rows = RowReader::new(&table(vec![("value", value.clone()), ("p", array)]), &columns).unwrap();
        assert_eq!((rows.partition(0), rows.partition(1), rows.partition(2)), (Some(3), None, None));
    }
    for bad in [-1, i64::from(i32::MAX) + 1] {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![0, bad]));
        let error = RowReader::new(&table(vec![("value", value.clone()), ("p", array)]), &columns).unwrap_err();
        assert!(error.to_string().starts_with(&format!("row 1: partition {bad} is out of range")), "{error}");
    }
}

#[test]
fn rejects_unsupported_columns() {
    let value: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let number: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let data = table(vec![("payload", value), ("n", number)]);
    let refused = |columns: Columns| RowReader::new(&data, &columns).unwrap_err().to_string();
    assert_eq!(refused(Columns::default()), r#"there is no column "value" for the value; the data has "payload", "n""#);
    let payload = || Columns { value: Some("payload".into()), ..Columns::default() };
    assert!(
        refused(Columns { key: Some("k".into()), ..payload() }).starts_with(r#"there is no column "k" for the key"#)
    );
    assert!(refused(Columns { key: Some("n".into()), ..payload() }).starts_with(r#"column "n" is Int32, but the key"#));
    assert!(refused(Columns { headers: Some("n".into()), ..payload() }).contains("a list of structs"));
    assert!(refused(Columns { partition: Some("payload".into()), ..payload() }).contains("must be an integer"));
    assert!(refused(Columns { timestamp: Some("n".into()), ..payload() }).contains("must be a timestamp"));
    let magic = EncodeOptions { magic: 3, ..EncodeOptions::default() };
    assert!(matches!(encode_batches(&data, &payload(), &magic), Err(EncodeError::Magic { magic: 3 })));
}

#[test]
fn offsets_and_sequences_continue_across_batches() {
    let value: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|i| format!("value {i}"))));
    let mut keys = StringDictionaryBuilder::<Int8Type>::new();
    (0..100).for_each(|i| keys.append_value(["a", "b", "c"][i % 3]));
    let data = table(vec![("key", Arc::new(keys.finish())), ("value", value)]);
    let options = EncodeOptions {
        base_offset: 1 << 40,
        batch_size: 200,
        producer_id: 4,
        producer_epoch: 0,
        base_sequence: i32::MAX - 20,
        ..EncodeOptions::default()
    };
    let wire = encode_batches(&data, &Columns::default(), &options).unwrap();
    let (mut offset, mut sequence, mut count) = (1i64 << 40, i64::from(i32::MAX) - 20, 0);
    for batch in samsarrow_wire::batch::batches(wire.clone().into()) {
        let header = batch.unwrap().header;
        assert_eq!((header.base_offset, i64::from(header.base_sequence)), (offset, sequence));
        offset = header.next_offset();
        sequence = (sequence + i64::from(header.record_count)) % (1 << 31);
        count += 1;
    }
    assert!(count > 10);
    let out = decode_batches(wire.into(), DecodeOptions::default()).unwrap();
    let expected: Vec<_> = (0..100).map(|i| (1 << 40) + i).collect();
    assert_eq!(out["offset"].as_primitive::<Int64Type>().values(), expected.as_slice());
    // Without rows, the result has no batch.
    assert!(encode_batches(&data.slice(0, 0), &Columns::default(), &options).unwrap().is_empty());
}

#[test]
fn unprojected_columns_are_null_and_use_no_memory() {
    let array: ArrayRef = Arc::new(StringArray::from(VALUES.to_vec()));
    let wire = encode_batches(
        &table(vec![("key", array.clone()), ("value", array)]),
        &Columns::default(),
        &EncodeOptions::default(),
    );
    let wire = bytes::Bytes::from(wire.unwrap());
    for layout in [Layout::Binary, Layout::View] {
        for (keys, values, timestamps) in [(false, true, true), (true, false, false), (false, false, true)] {
            let projection = Projection { keys, values, timestamps };
            let options = DecodeOptions { layout, projection, ..DecodeOptions::default() };
            let out = decode_batches(wire.clone(), options).unwrap();
            assert_eq!(out["offset"].as_primitive::<Int64Type>().values(), &[0, 1, 2, 3, 4]);
            for (column, built) in [("key", keys), ("value", values)] {
                assert_eq!(out[column].null_count(), if built { 1 } else { 5 }, "{layout:?} {column}");
            }
        }
    }
}
