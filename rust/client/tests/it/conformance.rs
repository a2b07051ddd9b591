//! Records from other clients' test suites and encoders. The embedded broker stores them verbatim, and they are fetched
//! in responses of many sizes. The rows must be the same for every size.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "reports skipped tests")]

#[path = "../../../arrow/tests/it/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::support::{cases, data_of, expected, rows, same};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use bytes::Bytes;
use samsarrow_arrow::decode::{DecodeOptions, Decoder, Window};
use samsarrow_arrow::layout::Layout;
use samsarrow_broker::{Broker, BrokerOptions};
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::consumer::{Consumer, SeekTarget};
use samsarrow_client::types::TopicPartition;
use samsarrow_wire::batch::batches;
use samsarrow_wire::frame;
use samsarrow_wire::messages::FetchRequest;
use samsarrow_wire::messages::fetch::{FetchPartition, FetchTopic};
use serde_json::{Value, json};

/// Test case with the rows that a consumer must return.
struct Case {
    name: String,
    data: Bytes,
    /// Expected rows, without control records, because consumers do not return them.
    rows: Vec<Value>,
    rejected: bool,
    either_way: bool,
    /// False if the log of a broker cannot contain these batches: see [`is_no_log`].
    is_log: bool,
}

/// Returns true if offsets decrease, or if the outer message of a compressed message set has the offset 0, which hides
/// the inner offsets.
///
/// Producers send such batches, but no broker stores them, and a fetch returns different rows depending on its start
/// offset. The rows must be returned completely or not at all.
fn is_no_log(case: &Value, rows: &[Value]) -> bool {
    let offset = |row: &Value| row["offset"].as_i64().unwrap();
    let back = rows.windows(2).any(|pair| offset(&pair[0]) >= offset(&pair[1]));
    let last = case["expect"]["batches"].as_array().unwrap().iter().filter_map(|b| b["last_offset"].as_i64()).max();
    back || rows.last().is_some_and(|row| Some(offset(row)) > last)
}

fn load() -> Option<Vec<Case>> {
    let case = |case: Value| {
        let mut rows = expected(&case);
        // A producer may send negative offsets (rec-0068), but records cannot be fetched from them.
        rows.retain(|row| row.get("control_type").is_none() && row["offset"].as_i64() >= Some(0));
        Case {
            name: case["id"].as_str().unwrap().to_owned(),
            data: data_of(&case).into(),
            rejected: !matches!(case["expect"]["error"].as_str(), None | Some("truncated")),
            either_way: case["either_way"] == json!(true),
            is_log: !is_no_log(&case, &rows),
            rows,
        }
    };
    Some(cases()?.into_iter().map(case).collect())
}

async fn broker(cases: &[Case]) -> Broker {
    let topics = cases.iter().map(|case| (case.name.clone(), 1)).collect();
    let broker = Broker::start(BrokerOptions { topics, ..BrokerOptions::default() }).await.unwrap();
    for case in cases {
        broker.load(&case.name, 0, &case.data).unwrap();
    }
    broker
}

/// Connection to the embedded broker that fetches one partition.
struct Fetcher {
    stream: TcpStream,
    topic: Arc<str>,
}

impl Fetcher {
    fn new(broker: &Broker, topic: &str) -> Fetcher {
        let stream = TcpStream::connect(broker.bootstrap_servers()).unwrap();
        stream.set_nodelay(true).unwrap();
        Fetcher { stream, topic: topic.into() }
    }

    /// Returns the high watermark and the fetched records.
    fn fetch(&mut self, version: i16, offset: i64, size: usize) -> (i64, Bytes) {
        let partition_max_bytes = i32::try_from(size).unwrap();
        let part = FetchPartition { fetch_offset: offset, partition_max_bytes, ..FetchPartition::default() };
        let topics =
            vec![FetchTopic { topic: self.topic.to_string(), partitions: vec![part], ..FetchTopic::default() }];
        let request = FetchRequest { max_bytes: 50 << 20, topics, ..FetchRequest::default() };
        self.stream.write_all(&frame::encode_request(&request, version, 1, Some("reader")).unwrap()).unwrap();
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).unwrap();
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut body).unwrap();
        let (_, mut response) = frame::decode_response::<FetchRequest>(version, Bytes::from(body)).unwrap();
        let partition = response.responses.remove(0).partitions.remove(0);
        assert_eq!(partition.error_code, 0, "{} at {offset}", self.topic);
        (partition.high_watermark, partition.records.unwrap())
    }

    /// Returns all rows, with fetches of this size. The size is doubled if not even one batch fits, as in clients
    /// before KIP-74.
    fn rows(&mut self, version: i16, size: usize, layout: Layout) -> Result<Vec<Value>, String> {
        let options = DecodeOptions { layout, include_headers: true, ..DecodeOptions::default() };
        let mut decoder = Decoder::new(options);
        let (mut rows_read, mut position, mut fetch_size) = (Vec::new(), 0, size);
        loop {
            let (end, records) = self.fetch(version, position, fetch_size);
            let is_short = records.len() < fetch_size;
            let window = Window::from(position);
            let appended = decoder.append(&self.topic, 0, records, window).map_err(|error| error.to_string())?;
            rows_read.extend(rows(&decoder.finish().unwrap()));
            if appended.next_offset > position {
                (position, fetch_size) = (appended.next_offset, size);
            } else if is_short || version >= 3 {
                // The rest of the log is smaller than one batch, because since version 3 the first batch is never
                // truncated.
                return Ok(rows_read);
            } else {
                fetch_size *= 2;
            }
            if position >= end {
                return Ok(rows_read);
            }
        }
    }
}

fn check(case: &Case, result: Result<Vec<Value>, String>) -> Result<(), String> {
    match result {
        Err(_) if case.rejected => Ok(()),
        Ok(_) if case.rejected && case.either_way => Ok(()),
        Ok(rows) if case.rejected => Err(format!("no error; {} records", rows.len())),
        Ok(rows) => same(&rows, &case.rows),
        Err(error) => Err(error),
    }
}

/// Returns fetch sizes: every third size up to a few hundred bytes (every thirtieth for a long case, and other sizes
/// for each case), and the sizes around the ends of batches. With SAMSARROW_EVERY_SIZE=1 there are three times as many.
fn sizes(number: usize, case: &Case) -> Vec<usize> {
    let len = case.data.len();
    let mut sizes = vec![len.max(1), len + 1, 1 << 20];
    if case.is_log {
        let step = if std::env::var_os("SAMSARROW_EVERY_SIZE").is_some() { 1 } else { 3 };
        let every = if len > 600 { 10 * step } else { step };
        sizes.extend((1 + number % every..=len.min(300)).step_by(every));
        let ends = batches(case.data.clone()).map_while(Result::ok).map(|batch| batch.position + batch.bytes().len());
        let ends: Vec<usize> = ends.collect();
        sizes.extend(ends.iter().step_by(ends.len().div_ceil(20).max(1)).flat_map(|end| [end - 1, *end, end + 1]));
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetch_size_does_not_change_the_rows() {
    let Some(cases) = load() else {
        eprintln!("skipped: ../shared/conformance/records.jsonl is not here (see SAMSARROW_CONFORMANCE)");
        return;
    };
    let broker = broker(&cases).await;
    let fetches = tokio::task::block_in_place(|| {
        let (mut fetches, mut failures) = (0, Vec::new());
        for (number, case) in cases.iter().enumerate() {
            let mut fetcher = Fetcher::new(&broker, &case.name);
            for (turn, size) in sizes(number, case).into_iter().enumerate() {
                let layout = if turn % 2 == 0 { Layout::Binary } else { Layout::View };
                // Versions below 3 truncate responses to the byte. Later versions return whole batches, so fewer sizes
                // make a difference.
                let versions = [Some(turn % 3), (turn % 3 == 0).then_some(3 + turn % 10)];
                for version in versions.into_iter().flatten() {
                    fetches += 1;
                    if let Err(reason) = check(case, fetcher.rows(version as i16, size, layout)) {
                        failures.push(format!("{} in {size} bytes, Fetch v{version}, {layout:?}: {reason}", case.name));
                    }
                }
            }
        }
        assert!(failures.is_empty(), "{} of {fetches} fail:\n{}", failures.len(), failures.join("\n"));
        fetches
    });
    let only_whole: Vec<_> = cases.iter().filter(|case| !case.is_log).map(|case| &case.name).collect();
    println!("{} cases read {fetches} times; only as a whole: {only_whole:?}", cases.len());
    assert!(only_whole.len() <= 20, "{} cases were read only as a whole", only_whole.len());
    broker.shutdown().await;
}

fn consumer(broker: &Broker, more: &[(&str, &str)]) -> Consumer {
    let servers = broker.bootstrap_servers();
    let all = [("bootstrap.servers", servers.as_str()), ("include.headers", "true"), ("fetch.max.wait.ms", "20")];
    let pairs = all.iter().chain(more).map(|(name, value)| ((*name).to_owned(), OptionValue::Str((*value).to_owned())));
    Consumer::new(&Options::parse(ClientKind::Consumer, pairs).unwrap()).unwrap()
}

/// Groups the rows of a batch by their topic.
fn by_topic(batch: &RecordBatch, rows_read: &mut BTreeMap<String, Vec<Value>>) {
    let topics = batch.column_by_name("topic").unwrap().as_dictionary::<Int32Type>();
    let names = topics.values().as_string::<i32>();
    for (row, record) in rows(batch).into_iter().enumerate() {
        let name = names.value(topics.keys().value(row) as usize);
        rows_read.entry(name.to_owned()).or_default().push(record);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumer_returns_the_expected_rows() {
    let Some(mut cases) = load() else {
        eprintln!("skipped: ../shared/conformance/records.jsonl is not here (see SAMSARROW_CONFORMANCE)");
        return;
    };
    cases.retain(|case| case.is_log && !case.rejected && !case.rows.is_empty());
    let total: usize = cases.iter().map(|case| case.rows.len()).sum();
    let broker = broker(&cases).await;
    let partitions: Vec<_> = cases.iter().map(|case| TopicPartition::new(&*case.name, 0)).collect();
    for (layout, version, size) in [
        ("binary", "18", "1048576"),
        ("view", "17", "1"),
        ("binary", "13", "100"),
        ("view", "4", "1000"),
        ("binary", "3", "1"),
        ("view", "2", "1048576"),
        ("binary", "1", "200000"),
        ("view", "0", "1048576"),
    ] {
        let options = [("layout", layout), ("api.version.fetch", version), ("max.partition.fetch.bytes", size)];
        let consumer = consumer(&broker, &options);
        consumer.assign(&partitions).unwrap();
        consumer.seek_to(&partitions, SeekTarget::Beginning, Duration::from_secs(10)).await.unwrap();
        let mut rows_read = BTreeMap::new();
        let until = Instant::now() + Duration::from_secs(60);
        let mut count = 0;
        while count < total && Instant::now() < until {
            let batch = consumer.poll(Duration::from_millis(200)).await.unwrap();
            count += batch.num_rows();
            by_topic(&batch, &mut rows_read);
        }
        for case in &cases {
            let result = rows_read.remove(&case.name).unwrap_or_default();
            same(&result, &case.rows)
                .unwrap_or_else(|reason| panic!("{} by Fetch v{version} in {size} bytes: {reason}", case.name));
        }
        let more = consumer.poll(Duration::from_millis(100)).await.unwrap();
        assert_eq!(more.num_rows(), 0, "no row is returned twice");
        consumer.close(Duration::from_secs(5)).await;
    }
    broker.shutdown().await;
}
