//! Tests of readers of typed keys and values against the embedded broker. Like Java, the tests read the columns by
//! address.

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
const ORDER: &str = r#"{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},
    {"name":"city","type":["null","string"],"default":null}]}"#;
const AVRO: [(&str, &str); 3] = [("value.format", "avro"), ("value.schema", ORDER), ("value.framing", "none")];

/// Broker with the topic `t`, which contains records with these values.
struct Cluster {
    runtime: Runtime,
    broker: Broker,
}

impl Cluster {
    fn of(values: &[Option<&'static [u8]>], key: Option<&'static [u8]>) -> Cluster {
        let runtime = Runtime::new().unwrap();
        let options = BrokerOptions { topics: vec![("t".to_owned(), 1)], ..Default::default() };
        let broker = runtime.block_on(Broker::start(options)).unwrap();
        let pairs = [("bootstrap.servers".to_owned(), OptionValue::Str(broker.bootstrap_servers()))];
        runtime.block_on(async {
            let producer = Producer::new(&Options::parse(ClientKind::Producer, pairs).unwrap()).unwrap();
            for value in values {
                let (topic, headers) = ("t".into(), Vec::new());
                let [key, value] = [key, *value].map(|bytes| bytes.map(Bytes::from_static));
                let record = ProducerRecord { topic, partition: Some(0), timestamp: Some(1), key, value, headers };
                producer.send(record).await.unwrap();
            }
            producer.flush(Some(SOON)).await.unwrap();
            producer.close(SOON).await.unwrap();
        });
        Cluster { runtime, broker }
    }

    fn reader(&self, options: &[(&str, &str)], range: &str) -> Result<Reader, Failure> {
        let servers = self.broker.bootstrap_servers();
        let base = [("kafka.bootstrap.servers", servers.as_str()), ("subscribe", "t")];
        let options: BTreeMap<&str, &str> = base.iter().chain(options).copied().collect();
        let pairs = options.iter().map(|(name, value)| format!("{name:?}:{value:?}")).collect::<Vec<_>>();
        let client = Client::new(&format!(r#"{{"options":{{{}}},"folders":[],"token":null}}"#, pairs.join(",")));
        let text = format!(r#"{{"topic":"t","partition":0,"start":0,{range}}}"#);
        Reader::new(client?.shared().clone(), Range::parse(&text)?)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.runtime.block_on(self.broker.shutdown());
    }
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

/// Reads the value at an address of the layout.
fn at<T: Copy>(address: u64, index: usize) -> T {
    assert_ne!(address, 0);
    unsafe { std::ptr::with_exposed_provenance::<T>(address as usize).add(index).read_unaligned() }
}

fn slots(reader: &Reader, vector: usize) -> [u64; 8] {
    reader.layout().unwrap().slots()[8 + 8 * vector..16 + 8 * vector].try_into().unwrap()
}

fn nulls(reader: &Reader, vector: usize, rows: usize) -> Vec<bool> {
    let validity = slots(reader, vector)[0];
    (0..rows).map(|row| validity != 0 && at::<u8>(validity, row / 8) >> (row % 8) & 1 == 0).collect()
}

fn text(reader: &Reader, vector: usize, row: usize) -> String {
    let [_, offsets, data, ..] = slots(reader, vector);
    let (from, to) = (at::<i32>(offsets, row) as usize, at::<i32>(offsets, row + 1) as usize);
    String::from_utf8((from..to).map(|i| at::<u8>(data, i)).collect()).unwrap()
}

const GOOD: &[u8] = b"\x02\x02\x08Rome";
const BARE: &[u8] = b"\x04\x00";
const BAD: &[u8] = b"\x02\x02\x08Ro";

#[test]
fn rows_before_a_bad_value_are_returned() {
    let cluster = Cluster::of(&[Some(GOOD), None, Some(BARE), Some(BAD), Some(GOOD)], None);
    let range = r#""end":5,"columns":["offset","value"],"vectors":4"#;
    let mut reader = cluster.reader(&AVRO, range).unwrap();
    assert_eq!(next(&mut reader).unwrap(), Some(3));
    assert_eq!(nulls(&reader, 1, 3), [false, true, false]);
    let [.., length, _, _, _, _] = slots(&reader, 2);
    assert_eq!((length, at::<i64>(slots(&reader, 2)[2], 0), at::<i64>(slots(&reader, 2)[2], 2)), (3, 1, 2));
    assert_eq!((nulls(&reader, 3, 3)[2], text(&reader, 3, 0)), (true, "Rome".to_owned()));
    for _ in 0..2 {
        let failure = next(&mut reader).unwrap_err();
        assert_eq!((failure.kind, failure.name.as_str()), ("bad_value", "BadValueError"));
        assert_eq!(failure.text, "t-0, offset 3, field city: 4 bytes are announced, and 2 are there");
    }
    assert!(reader.counters().peak > 0);
    reader.close(false);
    let mut limited = cluster.reader(&AVRO, &format!(r#"{range},"limit":3"#)).unwrap();
    assert_eq!(next(&mut limited).unwrap(), Some(3), "rows after the limit are not decoded");
    assert_eq!(next(&mut limited).unwrap(), None);
}

#[test]
fn bad_values_become_null_with_raw_bytes() {
    let cluster = Cluster::of(&[Some(GOOD), Some(BAD), None], None);
    let options = [&AVRO[..], &[("value.onError", "null")]].concat();
    let range = r#""end":3,"columns":["value_error","value","raw_value"],"vectors":5"#;
    let mut reader = cluster.reader(&options, range).unwrap();
    assert_eq!(next(&mut reader).unwrap(), Some(3));
    assert_eq!(nulls(&reader, 0, 3), [true, false, true]);
    assert_eq!(text(&reader, 0, 1), "field city: 4 bytes are announced, and 2 are there");
    assert_eq!(nulls(&reader, 1, 3), [false, true, true]);
    assert_eq!(text(&reader, 4, 1).as_bytes(), BAD);
    assert_eq!(next(&mut reader).unwrap(), None);
    let mut errors = cluster.reader(&options, r#""end":3,"columns":["value_error"]"#).unwrap();
    assert_eq!(next(&mut errors).unwrap(), Some(3));
}

#[test]
fn selects_fields_and_rejects_wrong_vector_count() {
    let cluster = Cluster::of(&[Some(GOOD)], None);
    let requested = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"city\",\"type\":\"string\"}]}"#;
    let range = format!(r#""end":1,"columns":["value"],"vectors":2,"types":{{"value":"{requested}"}}"#);
    let mut reader = cluster.reader(&AVRO, &range).unwrap();
    assert_eq!(next(&mut reader).unwrap(), Some(1));
    assert_eq!(text(&reader, 1, 0), "Rome");
    let mut narrow = cluster.reader(&AVRO, r#""end":1,"columns":["value"]"#).unwrap();
    let failure = next(&mut narrow).unwrap_err();
    assert_eq!((failure.kind, failure.text.as_str()), ("state", "the jar expects 1 vectors, but the columns have 3"));
    let unknown = requested.replace("city", "colour");
    let range = format!(r#""end":1,"columns":["value"],"vectors":2,"types":{{"value":"{unknown}"}}"#);
    let failure = cluster.reader(&AVRO, &range).unwrap_err();
    assert_eq!(failure.text, "there is no field value.colour, only id, city");
}

#[test]
fn unions_are_read_whole() {
    let union = r#"{"type":"record","name":"R","fields":[{"name":"id","type":"long"},
        {"name":"either","type":["null","int","string"]}]}"#;
    let cluster = Cluster::of(&[Some(b"\x02\x02\x0a")], None);
    let requested = r#"{\"type\":\"struct\",\"fields\":[{\"name\":\"either\",\"type\":{\"type\":\"struct\",
        \"fields\":[{\"name\":\"int\",\"type\":\"integer\"}]}}]}"#;
    let requested = requested.replace('\n', "");
    let range = format!(r#""end":1,"columns":["value"],"vectors":3,"types":{{"value":"{requested}"}}"#);
    let mut reader = cluster.reader(&[AVRO[0], ("value.schema", union), AVRO[2]], &range).unwrap();
    assert_eq!(next(&mut reader).unwrap(), Some(1));
    assert_eq!(at::<i32>(slots(&reader, 2)[2], 0), 5);
}

#[test]
fn first_bad_row_is_reported_and_key_before_value() {
    let options = [&AVRO[..], &[("key.format", "int")]].concat();
    let range = r#""end":2,"columns":["value","key"],"vectors":4"#;
    let cluster = Cluster::of(&[Some(BAD), Some(GOOD)], Some(b"\x01"));
    let failure = next(&mut cluster.reader(&options, range).unwrap()).unwrap_err();
    assert!(failure.text.starts_with("t-0, offset 0, key: "), "{failure:?}");
    let cluster = Cluster::of(&[Some(GOOD), Some(BAD)], Some(b"\0\0\0\x2a"));
    let mut reader = cluster.reader(&options, range).unwrap();
    assert_eq!(next(&mut reader).unwrap(), Some(1));
    assert_eq!(at::<i32>(slots(&reader, 3)[2], 0), 42);
    assert!(next(&mut reader).unwrap_err().text.starts_with("t-0, offset 1, field city"));
}

#[test]
fn large_rows_are_split_into_batches() {
    // Each item has 3 bytes and decodes to 20 nulls, so a value of 60 KB decodes to 5 MiB, and 40 rows to 200 MiB.
    let large: &'static [u8] = format!("[{}{{}}]", "{},".repeat(20_000)).leak().as_bytes();
    let cluster = Cluster::of(&vec![Some(large); 40], None);
    let fields: Vec<_> = (0..20).map(|at| format!(r#""f{at}":{{"type":"integer"}}"#)).collect();
    let item = format!(r#"{{"type":"object","properties":{{{}}}}}"#, fields.join(","));
    let schema = format!(r#"{{"type":"array","items":{item}}}"#);
    let options = [("value.format", "json"), ("value.schema", schema.as_str())];
    let mut reader = cluster.reader(&options, r#""end":40,"columns":["offset","value"],"vectors":23"#).unwrap();
    let mut parts = Vec::new();
    while let Some(rows) = next(&mut reader).unwrap() {
        assert_eq!(at::<i64>(slots(&reader, 0)[2], 0), parts.iter().sum::<usize>() as i64);
        parts.push(rows);
    }
    assert_eq!(parts.iter().sum::<usize>(), 40);
    assert!(parts.iter().all(|rows| *rows < 10), "{parts:?}");
    assert!(reader.counters().peak < 80 << 20, "{}", reader.counters().peak);
}

#[test]
fn unresponsive_registry_does_not_block_next() {
    // The listener accepts connections but never responds.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let cluster = Cluster::of(&[Some(b"\0\0\0\0\x07\x02\x00")], None);
    let more = [("schema.registry.url", url.as_str()), ("schema.registry.http.read.timeout.ms", "1500")];
    let options = [&AVRO[..2], &more, &[("schema.registry.max.retries", "0")]].concat();
    let mut reader = cluster.reader(&options, r#""end":1,"columns":["value"],"vectors":3"#).unwrap();
    let (begun, mut slowest) = (Instant::now(), Duration::ZERO);
    let failure = loop {
        let call = Instant::now();
        let done = reader.next(Duration::from_millis(50));
        slowest = slowest.max(call.elapsed());
        match done {
            Ok(next) => assert_eq!(next, Next::Nothing),
            Err(failure) => break failure,
        }
        assert!(begun.elapsed() < SOON);
    };
    assert_eq!((failure.name.as_str(), failure.retriable), ("RegistryError", true), "{failure:?}");
    assert!(slowest < Duration::from_millis(1000), "a killed task must not wait: {slowest:?}");
}
