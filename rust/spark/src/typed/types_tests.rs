use std::sync::Arc;

use arrow_schema::{Field, Fields};

use super::super::selected;
use super::*;

fn wide() -> DataType {
    let zone: Arc<str> = "UTC".into();
    let item = |kind| Arc::new(Field::new("item", kind, true));
    let entry = DataType::Struct(
        [Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Int32, true)].into_iter().collect(),
    );
    let fields = [
        ("flag", DataType::Boolean),
        ("nothing", DataType::Null),
        ("small", DataType::UInt8),
        ("large", DataType::UInt64),
        ("hash", DataType::FixedSizeBinary(2)),
        ("price", DataType::Decimal128(9, 2)),
        ("at", DataType::Time32(TimeUnit::Millisecond)),
        ("made", DataType::Timestamp(TimeUnit::Millisecond, Some(zone))),
        ("seen", DataType::Timestamp(TimeUnit::Nanosecond, None)),
        ("tags", DataType::List(item(DataType::UInt32))),
        ("named", DataType::Map(Arc::new(Field::new("entries", entry, false)), false)),
    ];
    DataType::Struct(fields.map(|(name, kind)| Field::new(name, kind, false)).into_iter().collect())
}

#[test]
fn converts_arrow_types() {
    let spark = SparkType::from_arrow(&wide(), "value").unwrap();
    assert_eq!(
        spark.to_spark_string(),
        "struct<flag:boolean,nothing:void,small:smallint,large:decimal(20,0),hash:binary,price:decimal(9,2),at:int,\
         made:timestamp,seen:timestamp_ntz,tags:array<bigint>,named:map<string,int>>"
    );
    assert_eq!(SparkType::parse(&spark.json().to_string()), Some(spark));
    for bad in ["", "[]", r#"{"type":"array"}"#, r#"{"type":"struct","fields":[{"name":"a"}]}"#, r#""decimal(x,1)""#] {
        assert_eq!(SparkType::parse(bad), None, "{bad}");
    }
}

#[test]
fn rejects_unsupported_types() {
    let took = Field::new("took", DataType::Interval(IntervalUnit::MonthDayNano), true);
    let order = DataType::Struct(Fields::from(vec![Field::new("id", DataType::Int64, false), took]));
    let error = SparkType::from_arrow(&order, "value").unwrap_err().to_string();
    assert_eq!(
        error,
        "value.took has the type month_day_nano_interval, which Spark does not support: name the other fields in the \
         option value.fields"
    );
    for (kind, name) in [
        (DataType::Duration(TimeUnit::Microsecond), "duration[us]"),
        (DataType::Decimal256(50, 2), "decimal256(50, 2)"),
        (DataType::Time64(TimeUnit::Nanosecond), "time64[ns]"),
    ] {
        assert!(SparkType::from_arrow(&kind, "key").unwrap_err().to_string().contains(name));
    }
}

fn spark(text: &str) -> SparkType {
    SparkType::parse(text).unwrap()
}

#[test]
fn selects_fields() {
    let user = r#"{"type":"struct","fields":[{"name":"age","type":"integer","nullable":true}]}"#;
    let whole = r#"{"type":"struct","fields":[{"name":"age","type":"integer"},{"name":"name","type":"string"}]}"#;
    let available = spark(&format!(
        r#"{{"type":"struct","fields":[{{"name":"id","type":"long"}},{{"name":"user","type":{whole}}},
            {{"name":"users","type":{{"type":"array","elementType":{whole},"containsNull":true}}}},
            {{"name":"named","type":{{"type":"map","keyType":"string","valueType":{whole},"valueContainsNull":true}}}}]}}"#
    ));
    let requested = spark(&format!(
        r#"{{"type":"struct","fields":[{{"name":"named","type":{{"type":"map","keyType":"string","valueType":{user}}}}},
            {{"name":"users","type":{{"type":"array","elementType":{user}}}}},{{"name":"user","type":{whole}}}]}}"#
    ));
    let paths = selected(&available, &requested, "value").unwrap();
    assert_eq!(paths, ["named.age", "users.age", "user"]);
    let struct_of = |field: &str| spark(&format!(r#"{{"type":"struct","fields":[{field}]}}"#));
    for (requested, text) in [
        (
            struct_of(r#"{"name":"colour","type":"string"}"#),
            "there is no field value.colour, only id, user, users, named",
        ),
        (struct_of(r#"{"name":"id","type":"string"}"#), "value.id is bigint, not string"),
        (struct_of(r#"{"name":"id","type":"long","nullable":false}"#), "value.id cannot be NOT NULL"),
        (struct_of(""), "value in .schema(...) needs fields"),
        (spark(r#""binary""#), "value is struct<id:bigint,user:struct<age:int,name:string>"),
    ] {
        let error = selected(&available, &requested, "value").unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn selects_dotted_names_and_empty_structs() {
    let struct_of = |fields: &str| spark(&format!(r#"{{"type":"struct","fields":[{fields}]}}"#));
    let empty = r#"{"name":"e","type":{"type":"struct","fields":[]}}"#;
    let dotted = r#"{"name":"host.name","type":"string"}"#;
    let nested = format!(r#"{{"name":"host","type":{{"type":"struct","fields":[{dotted}]}}}}"#);
    let available = struct_of(&format!("{dotted},{nested},{empty}"));
    for (requested, paths) in [(dotted, "`host.name`"), (&*nested, "host"), (empty, "e")] {
        assert_eq!(selected(&available, &struct_of(requested), "value").unwrap(), [paths]);
    }
    let error = selected(&available, &struct_of(r#"{"name":"a.b","type":"long"}"#), "value").unwrap_err().to_string();
    assert!(error.contains("there is no field value.`a.b`, only `host.name`, host, e"), "{error}");
}
