//! Tests that read options have the names and rules of Spark's connector. They need neither Spark nor a broker.

use samsarrow_client::types::TopicPartition;

use super::*;
use crate::bounds::EARLIEST;

fn raw(options: &[(&str, &str)]) -> BTreeMap<String, String> {
    let base = [("kafka.bootstrap.servers", "localhost:9092"), ("subscribe", "t")];
    base.iter().chain(options).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn parse(options: &[(&str, &str)]) -> ReadOptions {
    ReadOptions::parse(&raw(options), Reading::Batch).unwrap()
}

fn names(columns: &[Column]) -> Vec<&'static str> {
    columns.iter().map(|column| column.name()).collect()
}

#[test]
fn defaults_equal_those_of_sparks_connector() {
    let o = parse(&[]);
    assert!(matches!(&o.selection, TopicSelection::Topics(topics) if topics == &["t"]));
    assert_eq!((&o.starting.spec, &o.ending.spec), (&OffsetSpec::Earliest, &OffsetSpec::Latest));
    assert_eq!(names(&o.columns), ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]);
    assert_eq!((o.min_partitions, o.poll_timeout), (None, Duration::from_secs(120)));
    assert_eq!((o.retries, o.retry_interval), (3, Duration::from_secs(1)), "time for a new leader to learn the end");
    assert!(o.fail_on_data_loss);
    let kafka: Vec<_> = o.kafka().map(|(name, value)| (name, value.reveal())).collect();
    assert_eq!(kafka, [("bootstrap.servers", "localhost:9092"), ("client.id", "samsarrow-spark")]);
    let stream = ReadOptions::parse(&raw(&[]), Reading::Stream).unwrap();
    assert_eq!((stream.starting.spec, stream.max_delay), (OffsetSpec::Latest, Duration::from_secs(900)));
}

#[test]
fn option_names_are_case_insensitive() {
    let o = parse(&[("STARTINGOFFSETS", r#"{"t":{"0":-2,"1":7}}"#), ("includeheaders", "TRUE")]);
    let offsets = [(TopicPartition::new("t", 0), EARLIEST), (TopicPartition::new("t", 1), 7)];
    assert_eq!(o.starting.spec, OffsetSpec::Offsets(offsets.into()));
    assert!(o.columns.contains(&Column::Headers));
}

#[test]
fn parses_topics_and_partitions() {
    let TopicSelection::Topics(topics) = parse(&[("subscribe", " a, b,a,")]).selection else { panic!("topics") };
    assert_eq!(topics, ["a", "b"]);
    let mut assigned = raw(&[("assign", r#"{"t":[2,0,2]}"#)]);
    assigned.remove("subscribe");
    let TopicSelection::Assigned(parts) = ReadOptions::parse(&assigned, Reading::Batch).unwrap().selection else {
        panic!("parts")
    };
    assert_eq!(parts, BTreeMap::from([("t".to_owned(), vec![0, 2])]));
}

#[test]
fn rejects_invalid_options() {
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("kafka.bootstrap.servers", "")], "kafka.bootstrap.servers must be given"),
        (&[("assign", r#"{"t":[0]}"#)], "exactly one of the options"),
        (&[("subscribe", " , ")], "names no topic"),
        (&[("startingOffsets", "latest")], "startingOffsets cannot be 'latest'"),
        (&[("endingOffsets", "earliest")], "endingOffsets cannot be 'earliest'"),
        (&[("startingOffsets", "yesterday")], "startingOffsets must be JSON"),
        (&[("startingOffsets", r#"{"t":{"0":-1}}"#)], "-1 (latest) of t-0"),
        (&[("endingOffsets", r#"{"t":{"0":-2}}"#)], "-2 (earliest) of t-0"),
        (&[("endingOffsets", r#"{"t":[1]}"#)], "must map to numbers per partition"),
        (&[("endingOffsets", r#"{"t":{"x":1}}"#)], "not a partition and an offset"),
        (&[("includeHeaders", "yes")], "true or false"),
        (&[("minPartitions", "0")], "greater than 0"),
        (&[("kafka.auto.offset.reset", "none")], "use the option startingOffsets"),
        (&[("kafka.enable.auto.commit", "true")], "never commits"),
        (&[("kafka.key.deserializer", "x")], "layout=string"),
        (&[("kafka.interceptor.classes", "x")], "Java classes"),
        (&[("subscribePattern", "t.*")], "exactly one of the options"),
        (&[("failOnDataLoss", "maybe")], "true or false"),
        (&[("columns", "key,colour")], "there is no column 'colour'"),
        (&[("columns", "key,KEY")], "names a column twice"),
        (&[("layout", "text")], "layout must be binary, string"),
        (&[("layout", "offset:string")], "layout must be binary, string"),
        (&[("maxRecordsPerPartition", "-1")], "greater than 0"),
        (&[("startingTimestamp", "yesterday")], "startingTimestamp must be a whole number"),
        (&[("startingOffsetsByTimestamp", r#"{"t":{"0":-5}}"#)], "a time in milliseconds"),
        (&[("startingOffsetsByTimestampStrategy", "guess")], "error or latest"),
        (&[("endingOffsets", "group")], "only startingOffsets can"),
        (&[("startingOffsets", "group")], "needs the option kafka.group.id"),
        (&[("commitOffsets", "true"), ("kafka.group.id", "g")], "for streaming queries"),
        (&[("maxTriggerDelay", "soon")], "a time such as 15m"),
        (&[("minOffsetsPerTrigger", "5"), ("maxOffsetsPerTrigger", "4")], "cannot be larger"),
        (&[("startingOffset", "earliest")], "did you mean startingOffsets"),
        (&[("value.format", "avro")], "value.format=avro needs the option value.schema or schema.registry.url"),
        (&[("delegationToken", "yes")], "delegationToken must be true or false, not 'yes'"),
        (
            &[("delegationToken", "true")],
            "needs kafka.security.protocol=SASL_SSL, not PLAINTEXT: tasks log in with SCRAM-",
        ),
        (
            &[("delegationToken", "true"), ("delegationTokenMechanism", "PLAIN")],
            "delegationTokenMechanism must be one of SCRAM-SHA-256, SCRAM-SHA-512, not 'PLAIN'",
        ),
        (&[("fetchOffset.numRetries", "-1")], "fetchOffset.numRetries must be a whole number, at least 0, not '-1'"),
        (&[("kafka.auto_offset_reset", "none")], "option kafka.auto_offset_reset is not supported: use the option"),
        (&[("kafka.config.providers", "env"), ("kafka.group.id", "${env:G}")], "cannot be a reference"),
    ];
    for (options, text) in cases {
        let error = ReadOptions::parse(&raw(options), Reading::Batch).unwrap_err();
        assert_eq!((error.kind(), error.name()), ("configuration", "ConfigurationError".into()));
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn delegation_token_sets_mechanism() {
    assert_eq!(parse(&[]).token_mechanism, None);
    let o = parse(&[
        ("delegationToken", "true"),
        ("delegationTokenMechanism", " scram-sha-256"),
        ("kafka.security_protocol", "sasl_ssl"),
    ]);
    assert_eq!(o.token_mechanism, Some("SCRAM-SHA-256"));
}

#[test]
fn bound_options_are_checked_for_batches_and_streams_only() {
    for name in BATCH_ONLY {
        let options = raw(&[(name, "latest")]);
        let error = ReadOptions::parse(&options, Reading::Stream).unwrap_err().to_string();
        assert!(error.contains(&format!("{name} cannot be used in a streaming query")), "{error}");
        ReadOptions::parse(&options, Reading::Any).unwrap();
    }
    ReadOptions::parse(&raw(&[("startingOffsets", "latest"), ("commitOffsets", "true")]), Reading::Any).unwrap();
}

#[test]
fn timestamps_override_offsets() {
    let many = r#"{"t":{"0":5}}"#;
    let o = parse(&[
        ("startingOffsets", "earliest"),
        ("startingOffsetsByTimestamp", many),
        ("startingTimestamp", "7"),
        ("endingOffsets", "latest"),
        ("endingOffsetsByTimestamp", many),
    ]);
    assert_eq!((o.starting.option, o.starting.spec), ("startingTimestamp", OffsetSpec::Time(7)));
    assert_eq!(o.ending.spec, OffsetSpec::Times([(TopicPartition::new("t", 0), 5)].into()));
}

#[test]
fn parses_spark_durations() {
    let cases = [("15m", 900_000), ("2 min", 120_000), ("250ms", 250), ("3", 3), ("1h", 3_600_000)];
    for (text, millis) in cases {
        assert_eq!(parse(&[("maxTriggerDelay", text)]).max_delay, Duration::from_millis(millis), "{text}");
    }
}

#[test]
fn parses_columns_and_layout() {
    let o = parse(&[("columns", "offset, VALUE"), ("layout", "value:string"), ("includeHeaders", "true")]);
    assert_eq!((names(&o.columns), o.text), (vec!["offset", "value"], TextLayout { key: false, value: true }));
    assert_eq!(parse(&[("layout", "string")]).text, TextLayout { key: true, value: true });
}

#[test]
fn client_options_are_checked_and_secrets_hidden() {
    let o = parse(&[
        ("isolation.level", "read_committed"),
        ("kafka.group.id", "g"),
        ("kafka.max.poll.records", "7"),
        ("kafka.sasl.pasword", "hunter2"),
    ]);
    assert!(o.reads_committed() && !format!("{o:?}").contains("hunter2"));
    let error = o.client(ClientKind::Consumer, &[]).unwrap_err().to_string();
    assert!(error.contains("did you mean sasl.password") && !error.contains("hunter2"), "{error}");
    let o = parse(&[("kafka.group.id", "g"), ("kafka.max_poll_records", "7"), ("kafka.client.id", "me")]);
    let consumer = o.client(ClientKind::Consumer, &[("max.poll.records", "9".into())]).unwrap();
    assert_eq!((consumer.consumer.max_poll_records, consumer.consumer.group.id), (9, None));
    assert_eq!(o.client(ClientKind::Admin, &[]).unwrap().common.client_id, "me");
}

#[test]
fn rejects_missing_files() {
    let tls = [("kafka.security.protocol", "SSL"), ("kafka.ssl.truststore.location", "/no/such.pem")];
    let error = parse(&tls).client(ClientKind::Consumer, &[]).unwrap_err().to_string();
    assert!(error.contains("there is no file /no/such.pem on "), "{error}");
}
