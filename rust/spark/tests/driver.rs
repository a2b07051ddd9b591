//! Tests of driver requests against the embedded broker.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use samsarrow_broker::{Broker, BrokerOptions, Fault};
use samsarrow_client::admin::{Admin, CommitSettings, FetchSettings};
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::producer::{Producer, ProducerRecord};
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};
use samsarrow_spark::{Driver, Error};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

type OptionList<'a> = &'a [(&'a str, &'a str)];

const SOON: Duration = Duration::from_secs(10);

async fn broker(topics: &[(&str, i32)]) -> Broker {
    let topics = topics.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    Broker::start(BrokerOptions { topics, ..Default::default() }).await.unwrap()
}

/// Produces records to partitions 0, 1, …. `counts` contains the number of records per partition. Their timestamps are
/// 1000, 1001, ….
async fn produce(broker: &Broker, topic: &str, counts: &[usize]) {
    let options = [("bootstrap.servers", broker.bootstrap_servers())];
    let pairs = options.map(|(name, value)| (name.to_owned(), OptionValue::Str(value)));
    let producer = Producer::new(&Options::parse(ClientKind::Producer, pairs).unwrap()).unwrap();
    for (partition, count) in (0..).zip(counts) {
        for i in 0..*count {
            let record = ProducerRecord {
                topic: topic.into(),
                partition: Some(partition),
                timestamp: Some(1000 + i as i64),
                key: None,
                value: Some(Bytes::from_static(b"v")),
                headers: Vec::new(),
            };
            producer.send(record).await.unwrap();
        }
    }
    producer.flush(Some(SOON)).await.unwrap();
    producer.close(SOON).await.unwrap();
}

fn driver(broker: &Broker, more: OptionList<'_>) -> Driver {
    let servers = broker.bootstrap_servers();
    let base = [("kafka.bootstrap.servers", servers.as_str()), ("subscribe", "t")];
    let named = more.iter().any(|(name, _)| name.starts_with("subscribe") || *name == "assign");
    let defaults = base.iter().filter(|(name, _)| !(named && *name == "subscribe"));
    let options = defaults.chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Driver::new(Arc::new(options), Arc::default())
}

/// Formats the ranges in a response as `topic-partition start..end`.
fn spans(response: &str) -> Vec<String> {
    let response: serde_json::Value = serde_json::from_str(response).unwrap();
    let span = |r: &serde_json::Value| {
        format!("{}-{} {}..{}", r["topic"].as_str().unwrap(), r["partition"], r["start"], r["end"])
    };
    response["ranges"].as_array().unwrap().iter().map(span).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_returns_ranges() {
    let broker = broker(&[("t", 2), ("u", 1)]).await;
    produce(&broker, "t", &[5, 3]).await;
    produce(&broker, "u", &[2]).await;
    let whole = r#"{"ask":"batch","partitions":null,"from_time":null,"limit":null}"#;
    let filtered = r#"{"ask":"batch","filters":{"topics":null,"partitions":[0],"offset_from":2,"offset_until":4}}"#;
    let late = r#"{"ask":"batch","filters":{"time_from":1002}}"#;
    let cases: &[(OptionList<'_>, &str, &[&str])] = &[
        (&[], whole, &["t-0 0..5", "t-1 0..3"]),
        (&[("subscribe", "u,t")], whole, &["u-0 0..2", "t-0 0..5", "t-1 0..3"]),
        (&[("subscribePattern", "^[u-z]$")], whole, &["u-0 0..2"]),
        (&[("assign", r#"{"t":[1]}"#)], whole, &["t-1 0..3"]),
        (
            &[("startingOffsets", r#"{"t":{"0":-2,"1":1}}"#), ("endingOffsets", r#"{"t":{"0":4,"1":-1}}"#)],
            whole,
            &["t-0 0..4", "t-1 1..3"],
        ),
        (&[("startingTimestamp", "1001"), ("endingTimestamp", "1004")], whole, &["t-0 1..4", "t-1 1..3"]),
        (&[("minPartitions", "4")], whole, &["t-0 0..1", "t-0 1..3", "t-0 3..5", "t-1 0..1", "t-1 1..3"]),
        (&[("maxRecordsPerPartition", "4")], whole, &["t-0 0..2", "t-0 2..5", "t-1 0..3"]),
        (&[], filtered, &["t-0 2..4"]),
        (&[], late, &["t-0 2..5", "t-1 2..3"]),
    ];
    for (options, request, expected) in cases {
        let mut driver = driver(&broker, options);
        let response = driver.handle(request).await.unwrap();
        assert_eq!(spans(&response), *expected, "{options:?} {request}");
        driver.close().await;
    }
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_rejects_invalid_options() {
    let broker = broker(&[("t", 2)]).await;
    produce(&broker, "t", &[5, 3]).await;
    let cases: &[(OptionList<'_>, &str)] = &[
        (&[("subscribe", "t,nowhere")], "option subscribe names topics or partitions that do not exist: nowhere"),
        (&[("assign", r#"{"t":[0,7]}"#)], "option assign names topics or partitions that do not exist: t-7"),
        (
            &[("startingOffsets", r#"{"t":{"0":1}}"#)],
            "must give an offset for every partition that is read (-2 for earliest)",
        ),
        (
            &[("endingOffsetsByTimestamp", r#"{"t":{"0":1}}"#)],
            "must give a time for every partition that is read (-1 for latest)",
        ),
        (&[("startingOffsetsByTimestamp", r#"{"t":{"0":-1,"1":1}}"#)], "-1 (latest) of t-0 cannot be used in a batch"),
        (&[("startingOffsetsByTimestamp", r#"{"t":{"0":-3,"1":1}}"#)], "a time in milliseconds (-2 for earliest)"),
        (&[("startingTimestamp", "99000")], "there is no record at or after the time in t-0 (99000 ms), t-1"),
        (&[("startingOffsets", r#"{"t":{"0":9,"1":0}}"#)], "t-0 would be read from offset 9"),
    ];
    for (options, text) in cases {
        let mut driver = driver(&broker, options);
        let error = driver.handle(r#"{"ask":"batch"}"#).await.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        driver.close().await;
    }
    let mut bad = driver(&broker, &[("startingOffset", "earliest")]);
    assert_eq!(bad.handle(r#"{"ask":"schema"}"#).await.unwrap_err().name(), "ConfigurationError");
    let mut good =
        driver(&broker, &[("includeHeaders", "true"), ("layout", "value:string"), ("endingOffsets", "latest")]);
    let schema = good.handle(r#"{"ask":"schema"}"#).await.unwrap();
    assert!(schema.contains(r#"{"name":"value","type":"string","nullable":true}"#), "{schema}");
    assert!(schema.ends_with(r#"{"name":"headers","type":"headers","nullable":true}],"found":{}}"#), "{schema}");
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_plans_micro_batches() {
    let broker = broker(&[("t", 2)]).await;
    produce(&broker, "t", &[6, 2]).await;
    let options = [
        ("startingOffsets", "earliest"),
        ("maxOffsetsPerTrigger", "4"),
        ("commitOffsets", "true"),
        ("kafka.group.id", "g"),
    ];
    let mut driver = driver(&broker, &options);
    let initial = driver.handle(r#"{"ask":"initial"}"#).await.unwrap();
    assert_eq!(initial, r#"{"offsets":{"t":{"0":0,"1":0}}}"#);
    let latest = r#"{"ask":"latest","start":{"t":{"0":0,"1":0}},"limit":{"rows":4},"freeze":false}"#;
    let response = driver.handle(latest).await.unwrap();
    let empty = r#"{"offsets":{"t":{"0":0,"1":0}},"latest":{"t":{"0":6,"1":2}}}"#;
    assert_eq!(response, empty, "the first micro-batch stores the start");
    let response = driver.handle(latest).await.unwrap();
    assert_eq!(response, r#"{"offsets":{"t":{"0":3,"1":1}},"latest":{"t":{"0":6,"1":2}}}"#);
    let ranges = r#"{"ask":"ranges","start":{"t":{"0":0,"1":0}},"end":{"t":{"0":3,"1":1}}}"#;
    assert_eq!(spans(&driver.handle(ranges).await.unwrap()), ["t-0 0..3", "t-1 0..1"]);
    assert_eq!(broker.committed_offset("g", "t", 0), None);
    assert_eq!(driver.handle(r#"{"ask":"commit","end":{"t":{"0":3,"1":1}}}"#).await.unwrap(), "{}");
    // With AvailableNow, records that arrive after the first request are left for another query, and the driver waits
    // for commits.
    let frozen = r#"{"ask":"latest","start":{"t":{"0":3,"1":1}},"limit":null,"freeze":true}"#;
    let whole = r#"{"offsets":{"t":{"0":6,"1":2}},"latest":{"t":{"0":6,"1":2}}}"#;
    assert_eq!(driver.handle(frozen).await.unwrap(), whole);
    assert_eq!((broker.committed_offset("g", "t", 0), broker.committed_offset("g", "t", 1)), (Some(3), Some(1)));
    produce(&broker, "t", &[1, 1]).await;
    assert_eq!(driver.handle(frozen).await.unwrap(), whole);
    driver.close().await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_start_is_neither_resolved_nor_committed() {
    let broker = broker(&[("t", 1)]).await;
    produce(&broker, "t", &[9]).await;
    let options = [("startingOffsets", "latest"), ("commitOffsets", "true"), ("kafka.group.id", "g")];
    let latest = |start: i64| format!(r#"{{"ask":"latest","start":{{"t":{{"0":{start}}}}},"freeze":true}}"#);
    let end = r#"{"offsets":{"t":{"0":9}},"latest":{"t":{"0":9}}}"#;
    for (request, start) in [
        (r#"{"ask":"initial","kept":null,"keeps":true}"#, 9),
        (r#"{"ask":"initial","kept":{"t":{"0":4}},"keeps":true}"#, 4),
    ] {
        let mut driver = driver(&broker, &options);
        let initial = driver.handle(request).await.unwrap();
        assert_eq!(initial, format!(r#"{{"offsets":{{"t":{{"0":{start}}}}}}}"#));
        assert_eq!(driver.handle(&latest(start)).await.unwrap(), end, "the first micro-batch is not empty");
        assert_eq!(broker.committed_offset("g", "t", 0), None);
        driver.close().await;
    }
    let mut driver = driver(&broker, &options);
    driver.handle(r#"{"ask":"initial","kept":{"t":{"0":4}},"keeps":true}"#).await.unwrap();
    driver.handle(&latest(9)).await.unwrap();
    assert_eq!(broker.committed_offset("g", "t", 0), Some(9));
    driver.close().await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_commit_does_not_delay_micro_batches() {
    let broker = broker(&[("t", 1)]).await;
    produce(&broker, "t", &[9]).await;
    let mut driver =
        driver(&broker, &[("startingOffsets", "earliest"), ("commitOffsets", "true"), ("kafka.group.id", "g")]);
    broker.fail_next(ApiKey::OffsetCommit, Fault::Delay(Duration::from_secs(3)), 1);
    let begun = Instant::now();
    for start in [3, 4, 5] {
        let latest = format!(r#"{{"ask":"latest","start":{{"t":{{"0":{start}}}}}}}"#);
        assert!(driver.handle(&latest).await.unwrap().starts_with(r#"{"offsets":{"t":{"0":9}}"#));
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(broker.committed_offset("g", "t", 0), None);
    driver.close().await;
    assert_eq!(broker.committed_offset("g", "t", 0), Some(5), "the newest goes with the next commit");
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn end_before_start_is_data_loss() {
    let broker = broker(&[("t", 1)]).await;
    produce(&broker, "t", &[9]).await;
    let mut driver = driver(&broker, &[("startingOffsets", "earliest")]);
    driver.handle(r#"{"ask":"initial"}"#).await.unwrap();
    let ranges = r#"{"ask":"ranges","start":{"t":{"0":9}},"end":{"t":{"0":4}}}"#;
    let error = driver.handle(ranges).await.unwrap_err();
    assert!(matches!(&error, Error::DataLoss(text) if text.contains("went from offset 9 back to 4")), "{error}");
    driver.close().await;
    broker.shutdown().await;
}

/// Returns the end of each partition in a response.
fn ends(response: &str) -> Vec<i64> {
    let response: serde_json::Value = serde_json::from_str(response).unwrap();
    response["offsets"]["t"].as_object().unwrap().values().map(|end| end.as_i64().unwrap()).collect()
}

fn latest(start: &str) -> String {
    format!(r#"{{"ask":"latest","start":{{"t":{start}}},"limit":null,"freeze":true}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_retries_stale_ends() {
    let broker = broker(&[("t", 2)]).await;
    produce(&broker, "t", &[5, 9]).await;
    let options = [("fetchOffset.retryIntervalMs", "1"), ("fetchOffset.numRetries", "2")];
    let mut behind = driver(&broker, &options);
    let response = behind.handle(&latest(r#"{"0":10,"1":9}"#)).await.unwrap();
    assert_eq!(ends(&response), [5, 9], "the end stays behind, and the planner handles it");
    assert_eq!(broker.requests()[&ApiKey::ListOffsets], 3);
    behind.close().await;
    let options = [("fetchOffset.retryIntervalMs", "50"), ("fetchOffset.numRetries", "200")];
    let mut driver = driver(&broker, &options);
    let request = latest(r#"{"0":10,"1":9}"#);
    let (response, ()) = tokio::join!(driver.handle(&request), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        produce(&broker, "t", &[7]).await;
    });
    // If the end of a partition has moved back, it does not become the end of AvailableNow.
    assert_eq!(ends(&response.unwrap()), [12, 9]);
    produce(&broker, "t", &[1]).await;
    assert_eq!(ends(&driver.handle(&latest(r#"{"0":12,"1":9}"#)).await.unwrap()), [12, 9]);
    driver.close().await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_fetches_ends_and_topics_concurrently() {
    let broker = broker(&[("t", 3)]).await;
    produce(&broker, "t", &[5, 7, 1]).await;
    let cases: &[(&str, u64)] = &[
        (r#"{"0":5,"1":6,"2":0}"#, 1),
        // Once the new partition is known, its end is requested separately.
        (r#"{"0":5,"1":6}"#, 2),
        ("{}", 1),
    ];
    for (start, requests) in cases {
        let mut driver = driver(&broker, &[("failOnDataLoss", "false")]);
        let before = broker.requests().get(&ApiKey::ListOffsets).copied().unwrap_or_default();
        assert_eq!(ends(&driver.handle(&latest(start)).await.unwrap()), [5, 7, 1]);
        assert_eq!(broker.requests()[&ApiKey::ListOffsets] - before, *requests, "{start}");
        driver.close().await;
    }
    // The driver does not wait for a partition that was deleted.
    let mut driver = driver(&broker, &[("failOnDataLoss", "false")]);
    let request = latest(r#"{"0":5,"7":6}"#);
    let response = tokio::time::timeout(SOON, driver.handle(&request)).await.unwrap();
    assert_eq!(ends(&response.unwrap()), [5, 7, 1]);
    driver.close().await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_without_start_returns_all_records() {
    let broker = broker(&[("t", 1)]).await;
    produce(&broker, "t", &[5]).await;
    let options = [("maxOffsetsPerTrigger", "1"), ("minOffsetsPerTrigger", "1"), ("startingOffsets", "latest")];
    let mut driver = driver(&broker, &options);
    let request = r#"{"ask":"latest"}"#;
    assert_eq!(driver.handle(request).await.unwrap(), r#"{"offsets":{"t":{"0":5}},"latest":{"t":{"0":5}}}"#);
    driver.handle(r#"{"ask":"initial"}"#).await.unwrap();
    produce(&broker, "t", &[3]).await;
    assert_eq!(ends(&driver.handle(request).await.unwrap()), [8]);
    driver.close().await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_commit_is_retried_with_the_next() {
    let broker = broker(&[("t", 2)]).await;
    let options = [("commitOffsets", "true"), ("kafka.group.id", "g"), ("startingOffsets", "earliest")];
    let mut driver = driver(&broker, &options);
    let committed = || (broker.committed_offset("g", "t", 0), broker.committed_offset("g", "t", 1));
    let rejected = Fault::Error(ErrorCode::GROUP_AUTHORIZATION_FAILED);
    broker.fail(ApiKey::OffsetCommit, None, &rejected, Some(1));
    // With AvailableNow, the driver waits for each commit, even if the commit fails.
    for (start, expected) in [
        (r#"{"0":1,"1":1}"#, (None, None)),
        (r#"{"0":4,"1":1}"#, (Some(4), Some(1))),
        (r#"{"0":4,"1":1}"#, (Some(4), Some(1))),
    ] {
        driver.handle(&latest(start)).await.unwrap();
        assert_eq!(committed(), expected);
    }
    assert_eq!(broker.requests()[&ApiKey::OffsetCommit], 2, "committed offsets are not committed again");
    driver.close().await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn begin_write_stores_number_of_tasks() {
    let broker = broker(&[("t", 1), ("u", 1)]).await;
    let mut driver = driver(&broker, &[("exactlyOnce", "true"), ("kafka.transaction.timeout.ms", "60000")]);
    let ask = |ask: &str, number: i64, tasks: u64| {
        format!(
            r#"{{"ask":"{ask}","columns":[["topic","string"],["value","string"]],"query":"q","number":"{number}","tasks":{tasks}}}"#
        )
    };
    // Before a task has stored a marker, the driver knows no topic.
    let response = driver.handle(&ask("begin_write", 5, 4)).await.unwrap();
    assert_eq!(response, r#"{"noted":false}"#);
    driver.handle(&ask("end_write", 5, 4)).await.unwrap();
    assert_eq!(markers(&broker, "samsarrow-spark-q").await, []);
    store_marker(&broker, "samsarrow-spark-q-3", "u", 6, "").await;
    driver.handle(&ask("end_write", 5, 4)).await.unwrap();
    assert_eq!(markers(&broker, "samsarrow-spark-q").await, [("u".into(), 6, r#"{"tasks": 4}"#.into())]);
    // Repeats the micro-batch with the same number of tasks, and the next micro-batch with a different number.
    for (number, tasks) in [(5, 4), (6, 2), (6, 3), (7, 1)] {
        let response = driver.handle(&ask("begin_write", number, tasks)).await.unwrap();
        assert_eq!(response, r#"{"noted":true}"#);
        let expected = ("u".to_owned(), number + 1, format!(r#"{{"tasks": {tasks}}}"#));
        assert_eq!(markers(&broker, "samsarrow-spark-q").await, [expected]);
    }
    store_marker(&broker, "samsarrow-spark-q-0", "u", 8, "").await;
    let error = driver.handle(&ask("begin_write", 7, 2)).await.unwrap_err();
    assert_eq!((error.kind(), &*error.name(), error.retriable()), ("kafka", "ReplayMismatchError", false));
    let text = "micro-batch 7 of query q was written by 1 tasks, and its repetition has 2: rows would be";
    assert!(error.to_string().contains(text), "{error}");
    let error = driver.handle(&ask("begin_write", 6, 1)).await.unwrap_err().to_string();
    assert!(error.contains("at micro-batch 6, but it has begun micro-batch 7 already"), "{error}");
    let without_query =
        r#"{"ask":"begin_write","columns":[["topic","string"],["value","string"]],"query":null,"tasks":1}"#;
    let error = driver.handle(without_query).await.unwrap_err().to_string();
    assert!(error.contains("exactlyOnce needs a streaming query, or foreachBatch in one"), "{error}");
    driver.close().await;
    broker.shutdown().await;
}

fn admin(broker: &Broker) -> Admin {
    let options = [("bootstrap.servers".to_owned(), OptionValue::Str(broker.bootstrap_servers()))];
    Admin::new(&Options::parse(ClientKind::Admin, options).unwrap()).unwrap()
}

async fn store_marker(broker: &Broker, group: &str, topic: &str, offset: i64, text: &str) {
    let at = OffsetAndMetadata { offset, metadata: text.to_owned(), ..Default::default() };
    let offsets = [(TopicPartition::new(topic, 0), at)];
    let results = admin(broker).commit_offsets(group, &offsets, &CommitSettings::default(), SOON).await.unwrap();
    assert!(results.iter().all(|(_, result)| result.is_ok()));
}

async fn markers(broker: &Broker, group: &str) -> Vec<(String, i64, String)> {
    let requests = [(group.to_owned(), None)];
    let offsets = admin(broker).fetch_offsets(&requests, &FetchSettings::default(), SOON).await.unwrap();
    let offsets = offsets.into_iter().flat_map(|(_, offsets)| offsets.unwrap());
    offsets.filter_map(|(tp, at)| at.map(|at| (tp.topic.to_string(), at.offset, at.metadata))).collect()
}
