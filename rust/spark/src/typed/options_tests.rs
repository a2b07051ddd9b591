use std::collections::BTreeMap;

use super::*;
use crate::columns::OutputColumn;
use crate::options::{ReadOptions, Reading};

const ORDER: &str = r#"{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}"#;

fn parse(options: &[(&str, &str)]) -> Result<ReadOptions> {
    let base = [("kafka.bootstrap.servers", "localhost:9092"), ("subscribe", "t")];
    let options: BTreeMap<String, String> =
        base.iter().chain(options).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ReadOptions::parse(&options, Reading::Any)
}

fn names(options: &[(&str, &str)]) -> Vec<&'static str> {
    parse(options).unwrap().output.into_iter().map(OutputColumn::name).collect()
}

#[test]
fn rejects_invalid_options() {
    let avro = [("value.format", "avro"), ("value.schema", ORDER)];
    let with = |more: &[(&'static str, &'static str)]| [&avro[..], more].concat();
    let cases = [
        (vec![("value.format", "xml")], "value.format must be one of avro, json, protobuf, string, short"),
        (vec![("value.format", "xml")], "not 'xml'"),
        (vec![("value.format", "avro")], "needs the option value.schema or schema.registry.url"),
        (vec![("key.schema", "{}")], "key.schema has no effect without key.format"),
        (vec![("value.onError", "null")], "value.onError has no effect without value.format"),
        (vec![("value.formats", "avro")], "did you mean value.format"),
        (vec![("value.format", "int"), ("value.schema", "{}")], "value.schema has no effect with value.format=int"),
        (
            vec![("value.format", "json"), ("value.schema", "{}"), ("value.message", "M")],
            "no effect with value.format=json",
        ),
        (vec![("value.format", "int"), ("schema.registry.url", "http://r")], "has no effect without value.format=avro"),
        (vec![("schema.registry.max.retries", "1")], "schema.registry.url must be given"),
        (with(&[("value.onError", "skip")]), "value.onError must be raise or null, not 'skip'"),
        (
            with(&[("value.onError", "deadletter")]),
            "value.onError=deadletter works in format(\"samsarrow-python\") only",
        ),
        (with(&[("value.deadletter.topic", "x")]), "value.deadletter.topic works in format(\"samsarrow-python\") only"),
        (with(&[("value.evolution", "fail")]), "value.evolution must be ignore or restart, not 'fail'"),
        (with(&[("value.evolutions", "restart")]), "did you mean value.evolution"),
        (with(&[("value.evolution", "restart"), ("value.schema", "{}")]), "restart and value.schema contradict"),
        (
            with(&[("value.evolution", "restart"), ("value.evolution.interval.ms", "soon")]),
            "value.evolution.interval.ms must be a whole number, not 'soon'",
        ),
        (with(&[("value.evolution.interval.ms", "5")]), "interval.ms has no effect without value.evolution=restart"),
        (
            with(&[("key.format", "int"), ("key.evolution", "restart")]),
            "key.evolution has no effect with key.format=int",
        ),
        (with(&[("value.version", "newest")]), "value.version must be a number or latest"),
        (with(&[("value.ignore.rules", "yes")]), "value.ignore.rules must be true or false"),
        (with(&[("value.recursion", "deep")]), "value.recursion must be a whole number, not 'deep'"),
        (with(&[("value.imports", "{}")]), "value.imports has no effect with value.format=avro"),
        (
            vec![("value.format", "protobuf"), ("value.schema", "x"), ("value.imports", r#"{"a.proto":1}"#)],
            "option value.imports: 'a.proto' must be a text, not 1",
        ),
        (
            vec![("value.format", "json"), ("value.schema", "{}"), ("value.recursion", "2")],
            "value.recursion has no effect with value.format=json",
        ),
        (with(&[("layout", "value:string")]), "layout and value.format both set"),
        (with(&[("columns", "raw_value")]), "there is no column 'raw_value'"),
        (with(&[("value.onError", "null"), ("columns", "raw_value,RAW_VALUE")]), "names a column twice"),
        (with(&[("schema.registry.url", "http://r"), ("schema.registry.max.retrys", "1")]), "max.retries"),
        (with(&[("schema.registry.url", "http://r"), ("schema.registry.password", "x")]), "must be set together"),
        (
            with(&[("schema.registry.url", "https://r"), ("schema.registry.ssl.ca.location", "no.pem")]),
            "option schema.registry.ssl.ca.location: there is no file no.pem",
        ),
    ];
    for (options, text) in cases {
        let error = parse(&options).unwrap_err();
        assert_eq!(error.kind(), "configuration");
        assert!(error.to_string().contains(text), "{options:?}: {error}");
    }
}

#[test]
fn null_on_error_adds_columns() {
    let all = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"];
    let avro = [("value.format", "Avro "), ("value.schema", ORDER)];
    assert_eq!(names(&avro), all);
    let nulls = [&avro[..], &[("value.onError", "NULL")]].concat();
    assert_eq!(names(&nulls), [&all[..], &["raw_value", "value_error"]].concat());
    let chosen = [&nulls[..], &[("columns", "Value_Error,offset")]].concat();
    assert_eq!(names(&chosen), ["value_error", "offset"]);
    let only = [&nulls[..], &[("columns", "raw_value")]].concat();
    assert_eq!(names(&only), ["raw_value"]);
    let typed = &parse(&only).unwrap().typed[0];
    assert!(typed.needs_decoding(&[OutputColumn::Error(Part::Value)]));
    assert!(
        !typed.needs_decoding(&[OutputColumn::Raw(Part::Value), OutputColumn::Error(Part::Key)]),
        "raw bytes need no decoding"
    );
}

#[test]
fn layout_applies_to_undecoded_part() {
    let options = parse(&[("value.format", "long"), ("layout", "string")]).unwrap();
    assert_eq!((options.text.key, options.text.value), (true, false));
    assert_eq!(options.typed.len(), 1);
    assert!(!options.typed[0].reads_headers());
}

#[test]
fn finds_single_topic() {
    let raw = |name: &str, text: &str| RawOptions::from([(name.to_owned(), text.to_owned())]);
    assert_eq!(single_topic(&raw("subscribe", " a,a, ")), Some("a".to_owned()));
    assert_eq!(single_topic(&raw("assign", r#"{"a":[0]}"#)), Some("a".to_owned()));
    for (name, text) in [("subscribe", "a,b"), ("assign", r#"{"a":[0],"b":[1]}"#), ("assign", "{"), ("other", "a")] {
        assert_eq!(single_topic(&raw(name, text)), None, "{text}");
    }
}

#[test]
fn registry_passwords_are_hidden() {
    let options = [
        ("value.format", "avro"),
        ("schema.registry.url", "http://r, http://s"),
        ("schema.registry.username", "me"),
        ("schema.registry.password", "hunter2"),
        ("schema.registry.max.retries", "0"),
    ];
    let options = parse(&options).unwrap();
    assert!(options.registry().unwrap().is_some());
    assert!(!format!("{options:?}").contains("hunter2"));
}

#[test]
fn format_errors_name_the_options() {
    let node = r#"{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}"#;
    for (schema, framing, text) in [
        (ORDER, "x", "framing must be auto, header"),
        (ORDER, "glue", "does not read schemas from AWS Glue"),
        (node, "none", "give `recursion`"),
    ] {
        let options = [("value.format", "avro"), ("value.schema", schema), ("value.framing", framing)];
        let error = parse(&options).unwrap().typed[0].spark_type(None).unwrap_err().to_string();
        assert!(error.contains(text) && error.ends_with(". This is about the options value.*."), "{error}");
    }
}
