//! Helpers of the producer tests: an embedded broker, a producer, and a reader that shares no code with the client.

#![allow(unreachable_pub, reason = "shared by the files here")]
#![allow(clippy::print_stderr, reason = "reports skipped tests")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use samsarrow_broker::{Broker, BrokerOptions};
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::error::Result;
use samsarrow_client::producer::{Producer, ProducerRecord};
use samsarrow_wire::batch::{self, Batch, Block, LegacyDecompressor, MessageSet, RawRecord, RecordVisitor};
use samsarrow_wire::compression::{Codec, Compressor, Decompressor};
use samsarrow_wire::frame;
use samsarrow_wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};

/// Returns true if this build supports compression with a codec.
pub fn has_codec(codec: Codec) -> bool {
    let supported = Compressor::new(codec, None).is_ok();
    if !supported {
        eprintln!("skipped: {codec:?} is not built in");
    }
    supported
}

/// Timeout of all tests.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub async fn broker(brokers: usize, topics: &[(&str, i32)]) -> Broker {
    let topics = topics.iter().map(|(name, partitions)| ((*name).to_owned(), *partitions)).collect();
    let options = BrokerOptions { brokers, topics, auto_create_topics: false, ..BrokerOptions::default() };
    Broker::start(options).await.unwrap()
}

pub fn try_producer(broker: &Broker, options: &[(&str, &str)]) -> Result<Producer> {
    let servers = ("bootstrap.servers", broker.bootstrap_servers());
    let pairs = std::iter::once((servers.0.to_owned(), OptionValue::Str(servers.1)))
        .chain(options.iter().map(|(name, value)| ((*name).to_owned(), OptionValue::Str((*value).to_owned()))));
    Producer::new(&Options::parse(ClientKind::Producer, pairs)?)
}

pub fn producer(broker: &Broker, options: &[(&str, &str)]) -> Producer {
    try_producer(broker, options).unwrap()
}

pub fn record(topic: &str, partition: i32, value: impl Into<Bytes>) -> ProducerRecord {
    ProducerRecord::new(topic, value).with_partition(partition)
}

/// Record as the log stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    pub producer_id: i64,
    pub codec: Codec,
    pub magic: i8,
}

impl Row {
    pub fn text(&self) -> String {
        String::from_utf8(self.value.clone().unwrap()).unwrap()
    }
}

/// Reads all records of a partition over a separate connection.
pub fn read(broker: &Broker, topic: &str, partition: i32) -> Vec<Row> {
    let end = broker.end_offset(topic, partition).unwrap();
    let leader = usize::try_from(broker.leader(topic, partition).unwrap()).unwrap();
    let servers = broker.bootstrap_servers();
    let mut stream = TcpStream::connect(servers.split(',').nth(leader).unwrap()).unwrap();
    let mut rows = Vec::new();
    let mut next = 0;
    while next < end {
        let before = next;
        for row in fetch(&mut stream, topic, partition, next) {
            assert_eq!(row.offset, next, "offsets have no holes");
            next += 1;
            rows.push(row);
        }
        assert!(next > before, "offset {next} of {end} cannot be read");
    }
    rows
}

pub fn values(broker: &Broker, topic: &str, partition: i32) -> Vec<String> {
    read(broker, topic, partition).iter().map(Row::text).collect()
}

fn fetch(stream: &mut TcpStream, topic: &str, partition: i32, offset: i64) -> Vec<Row> {
    let version = 11;
    let part =
        FetchPartition { partition, fetch_offset: offset, partition_max_bytes: 50 << 20, ..FetchPartition::default() };
    let topics = vec![FetchTopic { topic: topic.to_owned(), partitions: vec![part], ..FetchTopic::default() }];
    let request = FetchRequest { max_wait_ms: 100, max_bytes: 50 << 20, topics, ..FetchRequest::default() };
    stream.write_all(&frame::encode_request(&request, version, 1, Some("reader")).unwrap()).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body).unwrap();
    let (_, response) = frame::decode_response::<FetchRequest>(version, Bytes::from(body)).unwrap();
    let data = &response.responses[0].partitions[0];
    assert_eq!(data.error_code, 0);
    let mut rows = Vec::new();
    for batch in batch::batches(data.records.clone().unwrap_or_default()) {
        let batch = batch.unwrap();
        batch.check_crc().unwrap();
        let codec = Codec::from_attributes(batch.header.attributes).unwrap();
        if batch.header.magic < 2 {
            rows.extend(messages(&batch, codec).into_iter().filter(|row| row.offset >= offset));
            continue;
        }
        let mut records = batch.payload().to_vec();
        if codec != Codec::None {
            records.clear();
            Decompressor::new().decompress(codec, &batch.payload(), &mut records, 1 << 30).unwrap();
        }
        let header = batch.header;
        let mut collector = Collector { rows: Vec::new(), header: &header, codec };
        batch::walk(&records, header.record_count, &mut collector).unwrap();
        rows.extend(collector.rows.into_iter().filter(|row| row.offset >= offset));
    }
    rows
}

/// Reads records in the message formats that precede record batches.
fn messages(batch: &Batch, codec: Codec) -> Vec<Row> {
    let mut inner = batch.bytes().to_vec();
    if batch.header.is_wrapper() {
        inner.clear();
        LegacyDecompressor::new().decompress(batch, &mut inner, 1 << 30).unwrap();
    }
    let set = MessageSet::read(batch, &inner, true).unwrap();
    let mut rows = Vec::new();
    let mut visit = |block: &mut Block| {
        for record in block.records() {
            rows.push(Row {
                offset: set.header.base_offset + i64::from(record.offset_delta),
                timestamp: set.header.base_timestamp + record.timestamp_delta,
                key: record.key(&inner).map(<[u8]>::to_vec),
                value: record.value(&inner).map(<[u8]>::to_vec),
                headers: Vec::new(),
                producer_id: -1,
                codec,
                magic: set.header.magic,
            });
        }
        ControlFlow::Continue(())
    };
    set.walk_blocks(&inner, &mut Block::new(), &mut visit).unwrap();
    rows
}

struct Collector<'a> {
    rows: Vec<Row>,
    header: &'a batch::BatchHeader,
    codec: Codec,
}

impl RecordVisitor for Collector<'_> {
    fn record(&mut self, data: &[u8], record: &RawRecord) -> ControlFlow<()> {
        let headers = record
            .headers(data)
            .map(|(name, value)| (String::from_utf8(name.to_vec()).unwrap(), value.map(<[u8]>::to_vec)));
        self.rows.push(Row {
            offset: self.header.base_offset + i64::from(record.offset_delta),
            timestamp: self.header.base_timestamp + record.timestamp_delta,
            key: record.key(data).map(<[u8]>::to_vec),
            value: record.value(data).map(<[u8]>::to_vec),
            headers: headers.collect(),
            producer_id: self.header.producer_id,
            codec: self.codec,
            magic: self.header.magic,
        });
        ControlFlow::Continue(())
    }
}
