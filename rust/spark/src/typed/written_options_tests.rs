use super::*;
use crate::typed::SparkType;

const ORDER: &str = r#"{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}"#;
const AVRO: [(&str, &str); 2] = [("value.format", "avro"), ("schema.registry.url", "http://r")];

fn parse(options: &[(&str, &str)]) -> Result<(Vec<Written>, Option<RegistryOptions>)> {
    let mut options: RawOptions = [("topic", "t")]
        .iter()
        .chain(options)
        .map(|(name, value)| (name.to_lowercase(), (*value).to_owned()))
        .collect();
    let id = SparkType::Plain("long".to_owned());
    let value = SparkType::Struct(vec![("id".to_owned(), id, true)]);
    let field = Field { name: "value".to_owned(), kind: value.to_spark_string(), data_type: Some(value) };
    take_written(&mut options, &[field])
}

#[test]
fn rejects_invalid_options() {
    let with = |more: &[(&'static str, &'static str)]| [&AVRO[..], more].concat();
    let cases = [
        (vec![("value.format", "xml")], "value.format must be one of avro, json, protobuf, string, short"),
        (vec![("value.formats", "avro")], "did you mean value.format"),
        (with(&[("value.use_latest", "true")]), "value.use_latest is unknown; did you mean value.use.latest"),
        (with(&[("schema.registery.url", "x")]), "did you mean schema.registry.url"),
        (with(&[("value.fields", "id")]), "value.fields is for reads"),
        (with(&[("value.onError", "null")]), "value.onError is for reads"),
        (with(&[("value.deadletter.topic", "x")]), "value.deadletter.topic is for reads"),
        (vec![("value.format", "avro")], "value.format=avro needs value.schema or schema.registry.url"),
        (vec![("value.format", "avro"), ("value.schema", ORDER)], "or value.framing=none"),
        (
            vec![("value.format", "json"), ("value.subject", "s")],
            "value.subject has no effect without schema.registry.url",
        ),
        (vec![("value.schema", "{}")], "value.schema has no effect without value.format"),
        (vec![("value.format", "int"), ("value.schema", "{}")], "value.schema has no effect with value.format=int"),
        (vec![("value.format", "json"), ("value.name", "x")], "value.name has no effect with value.format=json"),
        (
            vec![("value.format", "string"), ("schema.registry.url", "http://r")],
            "has no effect without value.format=avro",
        ),
        (vec![("schema.registry.max.retries", "1")], "schema.registry.url must be given"),
        (
            with(&[("value.version", "2")]),
            "value.version has no effect where the subject's version is not what is written",
        ),
        (with(&[("value.use.latest", "true"), ("value.auto.register", "false")]), "auto.register has no effect where"),
        (with(&[("value.use.latest", "yes")]), "value.use.latest must be true or false, not 'yes'"),
        (
            with(&[("value.framing", "prefix")]),
            "framing must be auto, header, confluent, apicurio8, single-object, glue or none",
        ),
        (with(&[("value.subject.strategy", "topics")]), "must be one of topic, record, topic-record, not 'topics'"),
        (with(&[("topic", "")]), "option topic or value.subject, or value.subject.strategy=record"),
        (with(&[("key.format", "long")]), "there is no column key to be written as long, only value"),
    ];
    for (options, text) in cases {
        let error = parse(&options).unwrap_err();
        assert_eq!(error.kind(), "configuration");
        assert!(error.to_string().contains(text), "{options:?}: {error}");
    }
}

#[test]
fn takes_the_options_of_formats_and_registry() {
    let (written, registry) = parse(&[]).unwrap();
    assert!(written.is_empty() && registry.is_none());
    let (written, registry) = parse(&[&AVRO[..], &[("value.framing", " Header ")]].concat()).unwrap();
    assert_eq!((written[0].framing, written[0].auto_register, registry.is_some()), (Framing::Header, true, true));
}
