use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray, StructArray};
use arrow_schema::Field as ArrowField;
use samsarrow_values::EncodeError;

use super::*;
use crate::typed::SparkType;
use crate::write_options::{Field, WriteOptions};

const ORDER: &str = r#"{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}"#;

fn written(kind: &SparkType, options: &[(&str, &str)]) -> Written {
    let base = [("kafka.bootstrap.servers", "localhost:9092"), ("topic", "1-t")];
    let options: BTreeMap<String, String> =
        base.iter().chain(options).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let field = Field { name: "value".to_owned(), kind: kind.to_spark_string(), data_type: Some(kind.clone()) };
    WriteOptions::parse(&options, &[field]).unwrap().written.remove(0)
}

fn order() -> SparkType {
    SparkType::Struct(vec![("id".to_owned(), SparkType::Plain("long".to_owned()), true)])
}

fn resolve(written: &Written) -> Result<WriterSchema> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let schemas = runtime.block_on(resolve_schemas(std::slice::from_ref(written), None, &WriterSchemas::new()));
    schemas.map(|mut schemas| schemas.remove("value").unwrap())
}

fn orders(ids: Vec<Option<i64>>) -> ArrayRef {
    let ids: ArrayRef = Arc::new(Int64Array::from(ids));
    Arc::new(StructArray::from(vec![(Arc::new(ArrowField::new("id", DataType::Int64, true)), ids)]))
}

#[test]
fn schemas_are_the_same_after_json() {
    let schema = WriterSchema {
        text: Some("{}".to_owned()),
        needed: vec!["a".to_owned()],
        links: vec![(1, "a".to_owned(), 0)],
        id: Some(7),
        guid: Some([7; 16]),
        subject: Some("s".to_owned()),
        header: Some(vec![1, 255]),
    };
    for schema in [schema, WriterSchema::default()] {
        assert_eq!(WriterSchema::from_json(&schema.json()), Some(schema));
    }
    assert_eq!(WriterSchema::from_json(&value!({"needed": [], "links": [], "header": "?"})), None);
}

#[test]
fn avro_without_a_registry() {
    let column = written(&order(), &[("value.format", "avro"), ("value.schema", ORDER), ("value.framing", "none")]);
    let schema = resolve(&column).unwrap();
    let mut encoder = column.encoder(&schema).unwrap();
    let arrays = encoder.encode(&orders(vec![Some(7)])).unwrap();
    assert_eq!(arrays[0].value(0), [14]);
    let EncodeError::Bad(bad) = encoder.encode(&orders(vec![Some(7), None])).unwrap_err() else { panic!() };
    assert_eq!((bad.row, bad.path.as_str()), (1, "id"));
}

#[test]
fn json_is_checked_against_its_schema() {
    let schema =
        r#"{"type":"object","properties":{"id":{"type":"integer"},"city":{"type":"string"}},"required":["id"]}"#;
    let column = written(&order(), &[("value.format", "json"), ("value.schema", schema)]);
    let mut encoder = column.encoder(&resolve(&column).unwrap()).unwrap();
    let values = encoder.encode(&orders(vec![Some(7), Some(8)])).unwrap();
    assert_eq!((values[0].value(0), values[0].value(1)), (&br#"{"id":7}"#[..], &br#"{"id":8}"#[..]));
    let EncodeError::Bad(bad) = encoder.encode(&orders(vec![Some(7), None])).unwrap_err() else { panic!() };
    assert_eq!((bad.row, bad.path.as_str()), (1, "id"));
    // The decoder that checks values keeps no rows of the failed call.
    assert_eq!(encoder.encode(&orders(vec![Some(1)])).unwrap()[0].value(0), br#"{"id":1}"#);
    let plain = written(&SparkType::Plain("string".to_owned()), &[("value.format", "json")]);
    let mut encoder = plain.encoder(&resolve(&plain).unwrap()).unwrap();
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("é"), None]));
    let arrays = encoder.encode(&texts).unwrap();
    let values: Vec<Option<&[u8]>> = arrays.iter().flatten().collect();
    assert_eq!(values, [Some("\"é\"".as_bytes()), None]);
}

#[test]
fn errors_name_the_column() {
    let more = r#"{"type":"record","name":"O","fields":[{"name":"city","type":"string"}]}"#;
    let column = written(&order(), &[("value.format", "avro"), ("value.schema", more), ("value.framing", "none")]);
    let error = resolve(&column).unwrap_err().to_string();
    assert!(error.ends_with("This is about the column value, with value.format=avro."), "{error}");
    let column = written(&order(), &[("value.format", "json"), ("value.framing", "confluent")]);
    let error = resolve(&column).unwrap_err().to_string();
    assert!(error.contains("give the option schema.registry.url"), "{error}");
    let binary = SparkType::Struct(vec![("b".to_owned(), SparkType::Plain("binary".to_owned()), true)]);
    let error = resolve(&written(&binary, &[("value.format", "json")])).unwrap_err().to_string();
    assert!(error.starts_with("column b has bytes, which JSON does not support"), "{error}");
}

#[test]
fn derived_records_are_named_after_topics() {
    let options = [("value.format", "avro"), ("schema.registry.url", "http://r")];
    assert_eq!(written(&order(), &options).derived_name(), "_1_t_value");
    assert_eq!(
        written(&order(), &[&options[..], &[("value.name", "shop.Order")]].concat()).derived_name(),
        "shop.Order"
    );
}
