//! A client that sends raw request frames, and builders of record batches.

pub(crate) mod groups;
pub(crate) mod shares;
pub(crate) mod transactions;

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use samsarrow_broker::{Broker, BrokerOptions};
use samsarrow_wire::compression::{Codec, Compressor};
use samsarrow_wire::crc::crc32c;
use samsarrow_wire::frame;
use samsarrow_wire::messages::fetch::{FetchPartition, FetchTopic, PartitionData};
use samsarrow_wire::messages::produce::{PartitionProduceData, PartitionProduceResponse, TopicProduceData};
use samsarrow_wire::messages::{FetchRequest, ProduceRequest, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Maximum duration of each wait. It is exceeded only if the broker hangs.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn broker(brokers: usize, topics: &[(&str, i32)]) -> Broker {
    let topics = topics.iter().map(|(name, partitions)| ((*name).to_owned(), *partitions)).collect();
    Broker::start(BrokerOptions { brokers, topics, ..BrokerOptions::default() }).await.unwrap()
}

pub(crate) fn address(broker: &Broker, node: usize) -> String {
    broker.bootstrap_servers().split(',').nth(node).unwrap().to_owned()
}

/// A client connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    correlation_id: i32,
}

impl Client {
    pub(crate) async fn connect(broker: &Broker, node: usize) -> Client {
        Client { stream: TcpStream::connect(address(broker, node)).await.unwrap(), correlation_id: 0 }
    }

    pub(crate) async fn send<R: Request>(&mut self, version: i16, request: &R) {
        self.correlation_id += 1;
        let frame = frame::encode_request(request, version, self.correlation_id, Some("test")).unwrap();
        self.stream.write_all(&frame).await.unwrap();
    }

    /// Reads the next frame and returns it without the length prefix. Returns `None` if the broker closed the
    /// connection.
    pub(crate) async fn frame(&mut self) -> Option<Bytes> {
        let read = async {
            let size = self.stream.read_u32().await.ok()?;
            let mut frame = vec![0; size.try_into().unwrap()];
            self.stream.read_exact(&mut frame).await.unwrap();
            Some(Bytes::from(frame))
        };
        timeout(TIMEOUT, read).await.expect("no answer")
    }

    pub(crate) async fn receive<R: Request>(&mut self, version: i16) -> R::Response {
        let frame = self.frame().await.expect("the broker closed the connection");
        let (correlation_id, response) = frame::decode_response::<R>(version, frame).unwrap();
        assert_eq!(correlation_id, self.correlation_id);
        response
    }

    pub(crate) async fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.send(version, request).await;
        self.receive::<R>(version).await
    }

    /// Produces one batch with acks=-1 and returns the partition's response.
    pub(crate) async fn produce(&mut self, topic: &str, partition: i32, batch: &Bytes) -> PartitionProduceResponse {
        let mut response = self.call(9, &produce_request(topic, partition, batch, -1)).await;
        response.responses.remove(0).partition_responses.remove(0)
    }

    /// Fetches one partition without a long poll.
    pub(crate) async fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> PartitionData {
        let mut response = self.call(12, &fetch_request(topic, &[(partition, offset)])).await;
        assert_eq!(response.error_code, 0);
        response.responses.remove(0).partitions.remove(0)
    }

    /// Returns true if the broker closes the connection without sending another response.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.frame().await.is_none()
    }
}

pub(crate) fn produce_request(topic: &str, partition: i32, batch: &Bytes, acks: i16) -> ProduceRequest {
    let data = PartitionProduceData { index: partition, records: Some(batch.clone()), ..Default::default() };
    let topic = TopicProduceData { name: topic.to_owned(), partition_data: vec![data], ..Default::default() };
    ProduceRequest { acks, timeout_ms: 1000, topic_data: vec![topic], ..Default::default() }
}

pub(crate) fn fetch_request(topic: &str, partitions: &[(i32, i64)]) -> FetchRequest {
    let partition = |(partition, offset): &(i32, i64)| FetchPartition {
        partition: *partition,
        fetch_offset: *offset,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let partitions = partitions.iter().map(partition).collect();
    let topic = FetchTopic { topic: topic.to_owned(), partitions, ..Default::default() };
    FetchRequest { max_bytes: 50 << 20, min_bytes: 1, topics: vec![topic], ..Default::default() }
}

/// Fields of a batch header that identify the producer.
#[derive(Clone, Copy)]
pub(crate) struct ProducerFields {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) sequence: i32,
}

pub(crate) const NO_PRODUCER: ProducerFields = ProducerFields { producer_id: -1, epoch: -1, sequence: -1 };

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    out.push(rest.try_into().unwrap());
}

/// Builds an uncompressed batch with one record per timestamp. Each record has a value of `size` bytes.
pub(crate) fn batch_of(timestamps: &[i64], size: usize, producer: ProducerFields) -> Bytes {
    let mut records = Vec::new();
    for (delta, timestamp) in (0..).zip(timestamps) {
        let mut record = vec![0];
        varint(&mut record, timestamp - timestamps[0]);
        varint(&mut record, delta);
        varint(&mut record, -1);
        varint(&mut record, size.try_into().unwrap());
        record.extend(std::iter::repeat_n(b'x', size));
        varint(&mut record, 0);
        varint(&mut records, record.len().try_into().unwrap());
        records.extend(record);
    }
    let count = i32::try_from(timestamps.len()).unwrap();
    let mut covered = BytesMut::new();
    covered.put_i16(0);
    covered.put_i32(count - 1);
    covered.put_i64(timestamps[0]);
    covered.put_i64(*timestamps.iter().max().unwrap());
    covered.put_i64(producer.producer_id);
    covered.put_i16(producer.epoch);
    covered.put_i32(producer.sequence);
    covered.put_i32(count);
    covered.put_slice(&records);
    seal(&covered)
}

/// Builds a batch from its checksummed bytes by prepending the other header fields.
pub(crate) fn seal(covered: &[u8]) -> Bytes {
    let mut batch = BytesMut::new();
    batch.put_i64(0);
    batch.put_i32(i32::try_from(covered.len() + 9).unwrap());
    batch.put_i32(-1);
    batch.put_i8(2);
    batch.put_u32(crc32c(covered));
    batch.put_slice(covered);
    batch.freeze()
}

/// Modifies the checksummed bytes of a batch and updates its checksum.
pub(crate) fn resealed(batch: &Bytes, tamper: impl FnOnce(&mut [u8])) -> Bytes {
    let mut covered = batch[21..].to_vec();
    tamper(&mut covered);
    seal(&covered)
}

/// Compresses the records of a batch with a codec.
pub(crate) fn compressed(batch: &Bytes, codec: Codec) -> Bytes {
    let mut covered = batch[21..61].to_vec();
    covered[1] |= u8::try_from(codec.id()).unwrap();
    Compressor::new(codec, None).unwrap().compress(&batch[61..], &mut covered).unwrap();
    seal(&covered)
}

pub(crate) fn batch(records: usize) -> Bytes {
    batch_of(&vec![1_700_000_000_000; records], 10, NO_PRODUCER)
}

/// Verifies the checksum of every batch, and returns the base offset, leader epoch and last offset of each.
pub(crate) fn headers(records: &Bytes) -> Vec<(i64, i32, i64)> {
    let mut headers_found = Vec::new();
    let mut rest = &records[..];
    while !rest.is_empty() {
        let base = i64::from_be_bytes(rest[..8].try_into().unwrap());
        let size = 12 + usize::try_from(i32::from_be_bytes(rest[8..12].try_into().unwrap())).unwrap();
        let epoch = i32::from_be_bytes(rest[12..16].try_into().unwrap());
        assert_eq!(crc32c(&rest[21..size]), u32::from_be_bytes(rest[17..21].try_into().unwrap()));
        let delta = i32::from_be_bytes(rest[23..27].try_into().unwrap());
        headers_found.push((base, epoch, base + i64::from(delta)));
        rest = &rest[size..];
    }
    headers_found
}
