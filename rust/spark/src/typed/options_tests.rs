use std::collections::BTreeMap;

use super::*;
use crate::columns::OutputColumn;
use crate::options::{ReadOptions, Reading};
use crate::write_options::WriteOptions;

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
        (with(&[("value.onError", "skip")]), "value.onError must be raise, null or deadletter, not 'skip'"),
        (with(&[("value.onError", "deadletter")]), "deadletter needs the option value.deadletter.topic"),
        (
            with(&[("value.deadletter.topic", "u")]),
            "value.deadletter.topic has no effect without value.onError=deadletter",
        ),
        (with(&[("value.onError", "deadletter"), ("value.deadletter.topic", "t")]), "topic t is read, and would grow"),
        (
            with(&[("value.onError", "deadletter"), ("value.deadletter.topics", "u")]),
            "did you mean value.deadletter.topic",
        ),
        (vec![("key.deadletter.topic", "u")], "key.deadletter.topic has no effect without key.format"),
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
fn dead_letter_topic_needs_decoding_of_unused_columns() {
    let options = [("value.format", "int"), ("value.onError", "deadLetter"), ("value.deadletter.topic", " u ")];
    let parsed = parse(&options).unwrap();
    let typed = &parsed.typed[0];
    assert_eq!(typed.dead_letter_topic().map(|topic| &**topic), Some("u"));
    assert!(typed.needs_decoding(&[]) && typed.extra_columns().is_empty());
    let error = parsed.check_dead_letter_topics(["s", "u"].into_iter()).unwrap_err().to_string();
    assert!(error.contains("topic u is read, and value.deadletter.topic, too"), "{error}");
    assert!(parsed.check_dead_letter_topics(["s"].into_iter()).is_ok());
}

#[test]
fn dead_letters_are_sent_with_the_options_of_producers() {
    let more = [("kafka.fetch.min.bytes", "5"), ("kafka.request.timeout.ms", "7000"), ("kafka.group.id", "g")];
    let options = WriteOptions::for_dead_letters(parse(&more).unwrap().dead_letter_options());
    let names: Vec<&str> = options.kafka().map(|(name, _)| name).collect();
    assert_eq!(names, ["bootstrap.servers", "client.id", "request.timeout.ms"]);
    assert!(options.client(samsarrow_client::config::ClientKind::Producer, &[]).is_ok());
}

#[test]
fn layout_applies_to_undecoded_part() {
    let options = parse(&[("value.format", "long"), ("layout", "string")]).unwrap();
    assert_eq!((options.text.key, options.text.value), (true, false));
    assert_eq!(options.typed.len(), 1);
    assert!(!options.typed[0].reads_headers());
}

#[test]
fn finds_named_topics() {
    let raw = |name: &str, text: &str| RawOptions::from([(name.to_owned(), text.to_owned())]);
    assert_eq!(named_topics(&raw("subscribe", " a,a, ")), BTreeSet::from(["a".to_owned()]));
    assert_eq!(named_topics(&raw("assign", r#"{"a":[0]}"#)), BTreeSet::from(["a".to_owned()]));
    for (name, text) in [("subscribe", "a,b"), ("assign", r#"{"a":[0],"b":[1]}"#), ("assign", "{"), ("other", "a")] {
        assert_ne!(named_topics(&raw(name, text)).len(), 1, "{text}");
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
fn glue_url_selects_framing_and_name() {
    let with = |more: &[(&'static str, &'static str)]| {
        let options = [("value.format", "avro"), ("schema.registry.url", "glue://eu-central-1/shop")];
        parse(&[&options[..], more].concat())
    };
    let options = with(&[("schema.registry.aws.endpoint.url", "http://localhost:1")]).unwrap();
    assert_eq!(options.typed[0].framing, "glue");
    assert!(options.registry().unwrap().is_some());
    for (name, value, text) in [
        ("value.framing", "header", "has an id that AWS Glue Schema Registry does not have"),
        ("schema.registry.context", "x", "which has no contexts"),
        ("schema.registry.bearer.auth.token", "x", "AWS credentials only"),
    ] {
        let error = with(&[(name, value)]).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    let others = [("value.format", "avro"), ("value.schema", ORDER), ("value.framing", "glue")];
    let error = parse(&others).unwrap_err().to_string();
    assert!(error.contains("schema.registry.url=glue://REGION/REGISTRY"), "{error}");
}

#[test]
fn format_errors_name_the_options() {
    let node = r#"{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}"#;
    for (schema, framing, text) in [(ORDER, "x", "framing must be auto, header"), (node, "none", "give `recursion`")] {
        let options = [("value.format", "avro"), ("value.schema", schema), ("value.framing", framing)];
        let error = parse(&options).unwrap().typed[0].spark_type(None).unwrap_err().to_string();
        assert!(error.contains(text) && error.ends_with(". This is about the options value.*."), "{error}");
    }
}
