//! Errors of encoding.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, Decimal128Array, DictionaryArray, Int32Array, Int64Array, ListArray, StringArray,
    StructArray, TimestampMicrosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use samsarrow_values::avro::{Schema, derive};
use samsarrow_values::primitive_serdes::Plain;
use samsarrow_values::{EncodeError, Encoder, Framing, SchemaId};

fn encoder(schema: &str, data_type: &DataType) -> Result<Encoder, String> {
    let schema = Schema::parse(schema).unwrap();
    Encoder::avro(&schema, data_type, Framing::Bare, None).map_err(|error| error.to_string())
}

/// Returns the row index, path and reason of an encoding error.
fn bad(schema: &str, column: &dyn Array) -> (usize, String, String) {
    match encoder(schema, column.data_type()).unwrap().encode(column) {
        Err(EncodeError::Bad(bad)) => (bad.row, bad.path, bad.reason),
        other => panic!("{schema}: {other:?}"),
    }
}

fn fields(fields: &[(&str, DataType)]) -> DataType {
    DataType::Struct(fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect())
}

const ORDER: &str = r#"{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "user", "type": {"type": "record", "name": "User", "fields": [{"name": "city", "type": "string"}]}}]}"#;

#[test]
fn reports_incompatible_columns_first() {
    let user = |city| fields(&[("city", city)]);
    for (kind, why) in [
        (fields(&[("user", user(DataType::Utf8))]), "field id: there is no such column, and the schema has no default"),
        (
            fields(&[("id", DataType::Int64), ("user", user(DataType::Utf8)), ("price", DataType::Int8)]),
            "field price: the schema has no field for this column; there are id, user",
        ),
        (
            fields(&[("id", DataType::Int64), ("user", user(DataType::Int32))]),
            "field user.city: a column of Int32 cannot be written as string: cast it",
        ),
        (fields(&[("id", DataType::UInt64), ("user", user(DataType::Utf8))]), "field id: a column of UInt64 cannot"),
        (fields(&[("id", DataType::Int64), ("id", DataType::Int64)]), "field id: there are two columns of this name"),
        (DataType::Int32, "a column of Int32 cannot be written as record Order: cast it"),
    ] {
        let error = encoder(ORDER, &kind).unwrap_err();
        assert!(error.starts_with(why), "{error}");
    }
}

#[test]
fn rejects_types_with_other_meaning() {
    let zone = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
    let long = |logical: &str| format!(r#"{{"type": "long", "logicalType": "{logical}"}}"#);
    let decimal = r#"{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}"#;
    for (schema, kind) in [
        ("\"int\"".to_owned(), DataType::Int64),
        ("\"int\"".to_owned(), DataType::UInt32),
        ("\"float\"".to_owned(), DataType::Int32),
        ("\"float\"".to_owned(), DataType::Float64),
        ("\"double\"".to_owned(), DataType::Int64),
        ("\"long\"".to_owned(), zone(TimeUnit::Millisecond, None)),
        (long("timestamp-millis"), DataType::Int64),
        (long("timestamp-millis"), zone(TimeUnit::Millisecond, None)),
        (long("local-timestamp-millis"), zone(TimeUnit::Millisecond, Some("UTC"))),
        ("\"string\"".to_owned(), DataType::Binary),
        ("\"bytes\"".to_owned(), DataType::Utf8),
        (r#"{"type": "fixed", "name": "F", "size": 3}"#.to_owned(), DataType::FixedSizeBinary(4)),
        (decimal.to_owned(), DataType::Decimal128(9, 3)),
        (decimal.to_owned(), DataType::Int64),
        ("\"null\"".to_owned(), DataType::Int64),
        ("\"long\"".to_owned(), DataType::Null),
        (r#"["null", "string", "boolean"]"#.to_owned(), DataType::Int64),
        (r#"{"type": "array", "items": "int"}"#.to_owned(), DataType::Int32),
        (r#"{"type": "map", "values": "int"}"#.to_owned(), DataType::Int32),
    ] {
        let error = encoder(&schema, &kind).unwrap_err();
        assert!(error.contains("cannot be written as"), "{schema} {kind}: {error}");
    }
    let error = Encoder::plain(Plain::Short, &DataType::Int32).unwrap_err().to_string();
    assert_eq!(error, "a column of Int32 cannot be written as short: cast it");
    let schema = Schema::parse("int").unwrap();
    let framed = |framing, id| Encoder::avro(&schema, &DataType::Int32, framing, id).unwrap_err().to_string();
    assert!(framed(Framing::Glue, Some(SchemaId::Id(1))).contains("the UUID of a schema version, and none is known"));
    assert_eq!(framed(Framing::Confluent, None), "the framing has the schema's id, and none is known");
    assert!(framed(Framing::Auto, Some(SchemaId::Id(1 << 32))).contains("4 bytes"));
}

#[test]
fn reports_row_and_field_of_bad_values() {
    let null = "it is null, and the schema has no null here";
    let (id, city): (ArrayRef, ArrayRef) =
        (Arc::new(Int64Array::from(vec![1, 2])), Arc::new(StringArray::from(vec![Some("Rome"), None])));
    let user: ArrayRef = Arc::new(StructArray::try_from(vec![("city", city)]).unwrap());
    let rows = StructArray::try_from(vec![("id", id), ("user", user)]).unwrap();
    assert_eq!(bad(ORDER, &rows), (1, "user.city".into(), null.into()));

    let items = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)]), Some(vec![Some(1), None])]);
    assert_eq!(bad(r#"{"type": "array", "items": "int"}"#, &items), (1, "[1]".into(), null.into()));

    let symbols = r#"{"type": "enum", "name": "E", "symbols": ["a", "bc"]}"#;
    let texts = StringArray::from(vec!["a", "b"]);
    assert_eq!(bad(symbols, &texts), (1, String::new(), "\"b\" is not one of the enum's symbols".into()));
    let keys: DictionaryArray<Int32Type> = texts.iter().collect();
    assert_eq!(bad(symbols, &keys).2, "\"b\" is not one of the enum's symbols");

    let fixed = r#"{"type": "fixed", "name": "F", "size": 3}"#;
    let bytes = BinaryArray::from_iter_values([&b"abc"[..], b"ab"]);
    assert_eq!(bad(fixed, &bytes), (1, String::new(), "2 bytes, and the fixed has 3".into()));

    let millis = r#"{"type": "long", "logicalType": "timestamp-millis"}"#;
    let micros = TimestampMicrosecondArray::from(vec![1000, 1001]).with_timezone("UTC");
    assert!(bad(millis, &micros).2.starts_with("1001 is no multiple of 1000"));
    let far = TimestampSecondArray::from(vec![i64::MAX]).with_timezone("UTC");
    assert_eq!(bad(millis, &far).2, "the time is out of the range of the reader's unit");

    let decimal = r#"{"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1}"#;
    let values = Decimal128Array::from(vec![99, -100]).with_precision_and_scale(20, 1).unwrap();
    assert_eq!(bad(decimal, &values), (1, String::new(), "the decimal has more than 2 digits".into()));

    let uuid = r#"{"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}"#;
    assert_eq!(bad(uuid, &StringArray::from(vec!["0188d1a6"])).2, "the text is no UUID");
}

#[test]
fn rejects_unions_with_several_or_no_members() {
    let column = |long: Vec<Option<i64>>, text: Vec<Option<&str>>| {
        let (long, text): (ArrayRef, ArrayRef) = (Arc::new(Int64Array::from(long)), Arc::new(StringArray::from(text)));
        StructArray::try_from(vec![("long", long), ("string", text)]).unwrap()
    };
    let rows = column(vec![Some(1), Some(1)], vec![None, Some("x")]);
    let both = "both long and string are set, and a union has one of its members";
    assert_eq!(bad(r#"["long", "string"]"#, &rows), (1, String::new(), both.into()));
    let rows = column(vec![None], vec![None]);
    assert_eq!(bad(r#"["long", "string"]"#, &rows).2, "it is null, and the schema has no null here");
    let nullable = encoder(r#"["long", "null", "string"]"#, rows.data_type()).unwrap();
    assert_eq!(nullable.encode(&rows).unwrap()[0].value(0), [2]);
}

#[test]
fn derives_schemas() {
    let item = Field::new("item", fields(&[("sku", DataType::Utf8)]), false);
    let entries =
        Fields::from(vec![Field::new("keys", DataType::Utf8, false), Field::new("values", DataType::Int64, true)]);
    let entries = Field::new("entries", DataType::Struct(entries), false);
    let kind = DataType::Struct(Fields::from(vec![
        Field::new("id", DataType::UInt32, false),
        Field::new("at", DataType::Timestamp(TimeUnit::Second, Some("UTC".into())), true),
        Field::new("items", DataType::LargeList(Arc::new(item)), false),
        Field::new("tags", DataType::Map(Arc::new(entries), false), true),
        Field::new("hash", DataType::FixedSizeBinary(4), false),
        Field::new("price", DataType::Decimal128(9, 2), false),
        Field::new("none", DataType::Null, true),
        Field::new("kind", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), true),
    ]));
    let text = derive(&kind, "shop.Order").unwrap();
    let expected = concat!(
        r#"{"type":"record","name":"shop.Order","fields":[{"name":"id","type":"long"},"#,
        r#"{"name":"at","type":["null",{"type":"long","logicalType":"timestamp-millis"}],"default":null},"#,
        r#"{"name":"items","type":{"type":"array","items":{"type":"record","name":"shop.Order.items","fields":["#,
        r#"{"name":"sku","type":["null","string"],"default":null}]}}},"#,
        r#"{"name":"tags","type":["null",{"type":"map","values":["null","long"]}],"default":null},"#,
        r#"{"name":"hash","type":{"type":"fixed","name":"shop.Order.hash","size":4}},"#,
        r#"{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},"#,
        r#"{"name":"none","type":"null","default":null},"#,
        r#"{"name":"kind","type":["null","string"],"default":null}]}"#,
    );
    assert_eq!(text, expected);
    assert!(encoder(&text, &kind).is_ok());
}

#[test]
fn reports_types_without_avro_equivalent() {
    let at = |name: &str, kind: DataType| derive(&fields(&[(name, kind)]), "R").unwrap_err().to_string();
    assert_eq!(
        at("n", DataType::UInt64),
        "field n: Avro has no type for a column of UInt64: cast it to int64, or decimal128(20, 0)"
    );
    assert!(at("a", fields(&[("b", DataType::Duration(TimeUnit::Second))])).starts_with("field a.b: Avro has no type"));
    assert!(at("a", DataType::Decimal128(5, -2)).contains("Avro has no type"));
    for name in ["", "1a", "a b", "ä", "a.b"] {
        assert!(at(name, DataType::Int8).contains("is no name of a field"), "{name}");
    }
    for name in ["", ".R", "a..R", "a.1"] {
        assert!(derive(&DataType::Int8, name).unwrap_err().to_string().contains("is no name of a record"));
    }
    assert!(encoder("\"long\"", UInt64Array::from(vec![1]).data_type()).is_err());
    assert!(encoder("\"long\"", Int32Array::from(vec![1]).data_type()).is_ok());
}
