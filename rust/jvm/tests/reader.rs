//! Tests of readers against the embedded broker. Like Java, the tests read the columns by address.

#![allow(unsafe_code, reason = "layouts are addresses")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use samsarrow_broker::{Broker, BrokerOptions};
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::producer::{Producer, ProducerRecord};
use samsarrow_jvm::clients::Client;
use samsarrow_jvm::failure::Failure;
use samsarrow_jvm::range::Range;
use samsarrow_jvm::reader::{Next, Reader};
use tokio::runtime::Runtime;

const SOON: Duration = Duration::from_secs(20);

/// Broker with the topic `t`. It has its own runtime, because readers block on theirs.
struct Cluster {
    runtime: Runtime,
    broker: Broker,
}

impl Cluster {
    fn new() -> Cluster {
        let runtime = Runtime::new().unwrap();
        let options = BrokerOptions { topics: vec![("t".to_owned(), 1)], ..Default::default() };
        let broker = runtime.block_on(Broker::start(options)).unwrap();
        Cluster { runtime, broker }
    }

    fn producer(&self, more: &[(&str, &str)]) -> Producer {
        let servers = self.broker.bootstrap_servers();
        let options = more.iter().copied().chain([("bootstrap.servers", servers.as_str())]);
        let pairs = options.map(|(name, value)| (name.to_owned(), OptionValue::Str(value.to_owned())));
        let _inside = self.runtime.enter();
        Producer::new(&Options::parse(ClientKind::Producer, pairs).unwrap()).unwrap()
    }

    fn produce(&self, records: Vec<ProducerRecord>) {
        // Because of the long linger, all batches except the last are full.
        let producer = self.producer(&[("linger.ms", "30000")]);
        self.runtime.block_on(async {
            for record in records {
                producer.send(record).await.unwrap();
            }
            producer.flush(Some(SOON)).await.unwrap();
            producer.close(SOON).await.unwrap();
        });
    }

    /// Produces the values `0`, `1`, ….
    fn produce_numbers(&self, count: usize) {
        self.produce((0..count).map(|i| record(&i.to_string())).collect());
    }

    fn client(&self, more: &[(&str, &str)]) -> Client {
        let servers = self.broker.bootstrap_servers();
        let base = [("kafka.bootstrap.servers", servers.as_str()), ("subscribe", "t")];
        let options: BTreeMap<&str, &str> = base.iter().chain(more).copied().collect();
        let pairs = options.iter().map(|(name, value)| format!("{name:?}:{value:?}")).collect::<Vec<_>>();
        Client::new(&format!(r#"{{"options":{{{}}},"folders":[],"token":null}}"#, pairs.join(","))).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.runtime.block_on(self.broker.shutdown());
    }
}

fn record(value: &str) -> ProducerRecord {
    ProducerRecord {
        topic: "t".into(),
        partition: Some(0),
        timestamp: Some(1_700_000_000_123),
        key: None,
        value: Some(Bytes::from(value.to_owned())),
        headers: Vec::new(),
    }
}

fn open(client: &Client, start: i64, end: i64, columns: &str) -> Reader {
    let text = format!(r#"{{"topic":"t","partition":0,"start":{start},"end":{end},"columns":[{columns}]}}"#);
    Reader::new(client.shared().clone(), Range::parse(&text).unwrap()).unwrap()
}

/// Calls the reader until it returns rows, or `None` at the end of the range.
fn next(reader: &mut Reader) -> Result<Option<usize>, Failure> {
    let deadline = Instant::now() + SOON;
    while Instant::now() < deadline {
        match reader.next(Duration::from_millis(50))? {
            Next::Rows(rows) => return Ok(Some(rows)),
            Next::End => return Ok(None),
            Next::Nothing => {}
        }
    }
    panic!("nothing came");
}

fn count(reader: &mut Reader) -> Result<usize, Failure> {
    let mut rows = 0;
    while let Some(more) = next(reader)? {
        rows += more;
    }
    Ok(rows)
}

/// Reads the value at an address of the layout.
fn at<T: Copy>(address: u64, index: usize) -> T {
    assert_ne!(address, 0);
    unsafe { std::ptr::with_exposed_provenance::<T>(address as usize).add(index).read_unaligned() }
}

fn slots(reader: &Reader, column: usize) -> [u64; 8] {
    let slots = reader.layout().unwrap().slots();
    slots[8 + 8 * column..16 + 8 * column].try_into().unwrap()
}

fn is_null(validity: u64, row: usize) -> bool {
    validity != 0 && at::<u8>(validity, row / 8) >> (row % 8) & 1 == 0
}

fn bytes(validity: u64, offsets: u64, data: u64, row: usize) -> Option<Vec<u8>> {
    let (from, to) = (at::<i32>(offsets, row) as usize, at::<i32>(offsets, row + 1) as usize);
    (!is_null(validity, row)).then(|| (from..to).map(|i| at::<u8>(data, i)).collect())
}

/// Returns the values of a column, parsed as numbers.
fn numbers(reader: &Reader, column: usize, rows: usize) -> Vec<i64> {
    let [validity, offsets, data, ..] = slots(reader, column);
    let text = |row| String::from_utf8(bytes(validity, offsets, data, row).unwrap()).unwrap();
    (0..rows).map(|row| text(row).parse().unwrap()).collect()
}

#[test]
fn layout_has_addresses_of_all_columns() {
    let cluster = Cluster::new();
    let header =
        |name: &str, value: Option<&'static str>| (name.to_owned(), value.map(|v| Bytes::from_static(v.as_bytes())));
    cluster.produce(vec![
        record("before the range"),
        ProducerRecord { key: Some(Bytes::from_static(b"k")), ..record("one") },
        ProducerRecord { value: None, headers: vec![header("a", Some("1")), header("b", None)], ..record("") },
        ProducerRecord { key: Some(Bytes::new()), headers: vec![header("c", Some(""))], ..record("three") },
        record("behind it"),
    ]);
    let client = cluster.client(&[("includeHeaders", "true")]);
    let names = r#""headers","key","value","topic","partition","offset","timestamp","timestampType""#;
    let mut reader = open(&client, 1, 4, names);
    assert_eq!(next(&mut reader).unwrap(), Some(3));
    assert_eq!(reader.layout().unwrap().slots()[..2], [3, 8]);
    assert_eq!(reader.layout().unwrap().slots().len(), 8 + 8 * 8);
    let binary = |column: usize| {
        let [validity, offsets, data, ..] = slots(&reader, column);
        (0..3).map(|row| bytes(validity, offsets, data, row)).collect::<Vec<_>>()
    };
    assert_eq!(binary(1), [Some(b"k".to_vec()), None, Some(Vec::new())]);
    assert_eq!(binary(2), [Some(b"one".to_vec()), None, Some(b"three".to_vec())]);
    let [validity, offsets, data, .., constant] = slots(&reader, 3);
    assert_eq!((bytes(validity, offsets, data, 0), constant), (Some(b"t".to_vec()), 1));
    let [validity, _, data, .., constant] = slots(&reader, 4);
    assert_eq!((validity, at::<i32>(data, 0), constant), (0, 0, 1));
    let [validity, _, data, ..] = slots(&reader, 5);
    assert_eq!((validity, [0, 1, 2].map(|row| at::<i64>(data, row))), (0, [1, 2, 3]));
    let [validity, _, data, ..] = slots(&reader, 6);
    assert_eq!((validity, [0, 1, 2].map(|row| at::<i64>(data, row))), (0, [1_700_000_000_123_000; 3]));
    let [validity, _, data, .., constant] = slots(&reader, 7);
    assert_eq!((validity, at::<i32>(data, 0), constant), (0, 0, 1));
    let [validity, lists, keys, key_data, value_validity, values, value_data, _] = slots(&reader, 0);
    let pair = |i: usize| (bytes(0, keys, key_data, i), bytes(value_validity, values, value_data, i));
    let list = |row: usize| {
        (!is_null(validity, row))
            .then(|| (at::<i32>(lists, row)..at::<i32>(lists, row + 1)).map(|i| pair(i as usize)).collect::<Vec<_>>())
    };
    let header_pair =
        |name: &str, value: Option<&str>| (Some(name.as_bytes().to_vec()), value.map(|v| v.as_bytes().to_vec()));
    assert_eq!(list(0), None, "no headers are null, as in Spark's connector");
    assert_eq!(list(1), Some(vec![header_pair("a", Some("1")), header_pair("b", None)]));
    assert_eq!(list(2), Some(vec![header_pair("c", Some(""))]));
    assert_eq!(next(&mut reader).unwrap(), None);
    assert_eq!(reader.next(Duration::ZERO).unwrap(), Next::End, "repeated calls return the end");
    let counters = reader.counters();
    assert_eq!((counters.rows, counters.lost, counters.out_of_range), (3, 0, 0));
    assert!(counters.bytes > 0 && counters.peak > 0);
    reader.close(true);
}

#[test]
fn range_is_read_once_in_bounded_batches() {
    let cluster = Cluster::new();
    cluster.produce_numbers(20_000);
    let client = cluster.client(&[]);
    let mut values = Vec::new();
    // The second of these two consecutive tasks takes over the consumer of the first.
    for (start, end) in [(5, 12_345), (12_345, 19_990)] {
        let mut reader = open(&client, start, end, r#""value""#);
        while let Some(rows) = next(&mut reader).unwrap() {
            assert!(rows <= 8192);
            values.extend(numbers(&reader, 0, rows));
        }
        reader.close(true);
    }
    assert_eq!(values, (5..19_990).collect::<Vec<i64>>());
}

#[test]
fn consecutive_tasks_fetch_records_once() {
    let cluster = Cluster::new();
    cluster.produce_numbers(100);
    let client = cluster.client(&[]);
    let (mut values, mut fetched) = (Vec::new(), Vec::new());
    for (start, end) in [(0, 30), (30, 31), (31, 60), (60, 100), (7, 9)] {
        let mut reader = open(&client, start, end, r#""value""#);
        while let Some(rows) = next(&mut reader).unwrap() {
            values.extend(numbers(&reader, 0, rows));
        }
        reader.close(true);
        fetched.push(reader.counters().bytes > 0);
    }
    assert_eq!(values, (0..100).chain(7..9).collect::<Vec<i64>>());
    // One fetch response contains all records. Only the last task fetches again, because it does not continue where the
    // previous task ended.
    assert_eq!(fetched, [true, false, false, false, true]);
}

#[test]
fn counts_rows_and_applies_limits() {
    let cluster = Cluster::new();
    cluster.produce_numbers(500);
    let client = cluster.client(&[]);
    let mut reader = open(&client, 10, 400, "");
    assert_eq!(count(&mut reader).unwrap(), 390);
    let text = r#"{"topic":"t","partition":0,"start":10,"end":400,"columns":["value"],"limit":7}"#;
    let mut limited = Reader::new(client.shared().clone(), Range::parse(text).unwrap()).unwrap();
    assert_eq!(count(&mut limited).unwrap(), 7);
    assert_eq!(count(&mut open(&client, 3, 3, "")).unwrap(), 0);
}

#[test]
fn decodes_only_requested_columns() {
    let cluster = Cluster::new();
    cluster.produce((0..500).map(|i| record(&format!("{i:01000}"))).collect());
    let client = cluster.client(&[]);
    let mut whole = open(&client, 0, 500, r#""value","offset""#);
    let mut offsets = open(&client, 0, 500, r#""key","offset""#);
    assert_eq!((count(&mut whole).unwrap(), count(&mut offsets).unwrap()), (500, 500));
    let (whole, offsets) = (whole.counters(), offsets.counters());
    assert!(whole.peak > 50_000 && offsets.peak * 5 < whole.peak, "{whole:?} {offsets:?}");
}

#[test]
fn position_passes_markers_and_aborted_records() {
    let cluster = Cluster::new();
    let producer = cluster.producer(&[("transactional.id", "x")]);
    cluster.runtime.block_on(async {
        producer.init_transactions(Some(SOON)).await.unwrap();
        for (value, commits) in [("1", true), ("2", false), ("3", true)] {
            producer.begin_transaction().await.unwrap();
            producer.send(record(value)).await.unwrap();
            producer.flush(Some(SOON)).await.unwrap();
            if commits {
                producer.commit_transaction(Some(SOON)).await.unwrap();
            } else {
                producer.abort_transaction(Some(SOON)).await.unwrap();
            }
        }
        producer.close(SOON).await.unwrap();
    });
    // Each transaction writes a record and a marker, so the end of the range is after the last marker.
    assert_eq!(cluster.broker.end_offset("t", 0), Some(6));
    for (level, expected) in [("read_committed", 2), ("read_uncommitted", 3)] {
        let client = cluster.client(&[("isolation.level", level)]);
        assert_eq!(count(&mut open(&client, 0, 6, r#""value""#)).unwrap(), expected, "{level}");
    }
}

#[test]
fn range_beyond_log_end_is_data_loss() {
    let cluster = Cluster::new();
    cluster.produce_numbers(10);
    let strict = cluster.client(&[]);
    let failure = count(&mut open(&strict, 4, 15, r#""value""#)).unwrap_err();
    assert_eq!((failure.kind, failure.name.as_str(), failure.retriable), ("data_loss", "DataLossError", false));
    assert!(
        failure.text.starts_with("offsets 10 to 15 of t-0 cannot be read: the log, which starts at 0, ends at 10"),
        "{failure:?}"
    );
    let lenient = cluster.client(&[("failOnDataLoss", "false")]);
    let mut reader = open(&lenient, 4, 15, r#""value""#);
    assert_eq!((count(&mut reader).unwrap(), reader.counters().lost), (6, 5));
    let mut beyond = open(&lenient, 12, 15, r#""value""#);
    assert_eq!((count(&mut beyond).unwrap(), beyond.counters().lost, beyond.counters().out_of_range), (0, 3, 1));
}

#[test]
fn deleted_records_are_data_loss() {
    let cluster = Cluster::new();
    cluster.produce_numbers(10);
    let pairs = [("bootstrap.servers".to_owned(), OptionValue::Str(cluster.broker.bootstrap_servers()))];
    let admin = samsarrow_client::admin::Admin::new(&Options::parse(ClientKind::Admin, pairs).unwrap()).unwrap();
    let tp = samsarrow_client::types::TopicPartition::new("t", 0);
    cluster.runtime.block_on(async {
        admin.delete_records(&BTreeMap::from([(tp, 6)]), SOON).await.unwrap();
        admin.close().await;
    });
    let strict = cluster.client(&[]);
    let failure = count(&mut open(&strict, 2, 9, r#""value""#)).unwrap_err();
    assert!(failure.text.contains("the log starts at 6 now"), "{failure:?}");
    let lenient = cluster.client(&[("failOnDataLoss", "false")]);
    let mut reader = open(&lenient, 2, 9, r#""value""#);
    let rows = next(&mut reader).unwrap().unwrap();
    assert_eq!(numbers(&reader, 0, rows), [6, 7, 8]);
    assert_eq!(next(&mut reader).unwrap(), None);
    assert_eq!((reader.counters().lost, reader.counters().out_of_range), (4, 1));
}

#[test]
fn next_times_out_and_rejects_invalid_options() {
    let cluster = Cluster::new();
    let unreachable = cluster.client(&[("kafka.bootstrap.servers", "127.0.0.1:1")]);
    let mut reader = open(&unreachable, 0, 5, r#""value""#);
    let begun = Instant::now();
    assert_eq!(reader.next(Duration::from_millis(50)).unwrap(), Next::Nothing);
    assert!(begun.elapsed() < Duration::from_secs(5), "a killed task must not wait: {:?}", begun.elapsed());
    let bad = cluster.client(&[("kafka.max.poll.recrods", "5")]);
    let range = Range::parse(r#"{"topic":"t","partition":0,"start":0,"end":5,"columns":["key"]}"#).unwrap();
    let mut reader = Reader::new(bad.shared().clone(), range.clone()).unwrap();
    let failure = reader.next(Duration::ZERO).unwrap_err();
    assert!(failure.kind == "configuration" && failure.text.contains("max.poll.records"), "{failure:?}");
    let worse = cluster.client(&[("failOnDataLoss", "maybe")]);
    assert_eq!(Reader::new(worse.shared().clone(), range).unwrap_err().name, "ConfigurationError");
    for bad in
        ["[]", "{}", r#"{"options":{"a":1},"folders":[],"token":null}"#, r#"{"options":{},"folders":[],"token":{}}"#]
    {
        assert_eq!(Client::new(bad).unwrap_err().kind, "state", "{bad}");
    }
}
