//! Helpers of the consumer tests: start a broker, produce numbered records and read rows.

#![allow(unreachable_pub, reason = "shared by the files here")]

use std::collections::BTreeMap;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use bytes::Bytes;
use samsarrow_broker::{Broker, BrokerOptions};
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::consumer::Consumer;
use samsarrow_client::metrics::Id;
use samsarrow_client::producer::{Producer, ProducerRecord};
use samsarrow_client::types::TopicPartition;
use samsarrow_wire::messages::ApiKey;

pub const SOON: Duration = Duration::from_secs(10);

pub async fn broker(brokers: usize, partitions: i32) -> Broker {
    let topics = vec![("t".to_owned(), partitions)];
    Broker::start(BrokerOptions { brokers, topics, ..Default::default() }).await.unwrap()
}

pub fn options(kind: ClientKind, bootstrap: &str, more: &[(&str, &str)]) -> Options {
    let all = more.iter().copied().chain([("bootstrap.servers", bootstrap)]);
    Options::parse(kind, all.map(|(k, v)| (k.to_owned(), OptionValue::Str(v.to_owned())))).unwrap()
}

pub fn consumer(broker: &Broker, more: &[(&str, &str)]) -> Consumer {
    let defaults =
        [("auto.offset.reset", "earliest"), ("fetch.max.wait.ms", "50"), ("reconnect.backoff.max.ms", "100")];
    let kept = defaults.into_iter().filter(|(name, _)| !more.iter().any(|(overridden, _)| overridden == name));
    let all: Vec<_> = kept.chain(more.iter().copied()).collect();
    Consumer::new(&options(ClientKind::Consumer, &broker.bootstrap_servers(), &all)).unwrap()
}

/// Produces records with values `partition:number`, starting at `from`.
pub async fn produce(broker: &Broker, partitions: i32, from: usize, count: usize) {
    let more = [("linger.ms", "0"), ("batch.size", "2000"), ("reconnect.backoff.max.ms", "100")];
    let producer = Producer::new(&options(ClientKind::Producer, &broker.bootstrap_servers(), &more)).unwrap();
    for i in from..from + count {
        for partition in 0..partitions {
            let record = ProducerRecord {
                topic: "t".into(),
                partition: Some(partition),
                timestamp: Some(1000 + i as i64),
                key: None,
                value: Some(Bytes::from(format!("{partition}:{i}"))),
                headers: Vec::new(),
            };
            producer.send(record).await.unwrap();
        }
    }
    producer.flush(Some(SOON)).await.unwrap();
    producer.close(SOON).await.unwrap();
}

pub fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

pub fn all(partitions: i32) -> Vec<TopicPartition> {
    (0..partitions).map(tp).collect()
}

/// Returns rows as tuples of partition, offset and value.
pub fn rows(batch: &RecordBatch) -> Vec<(i32, i64, String)> {
    let partitions = batch.column_by_name("partition").unwrap().as_primitive::<Int32Type>();
    let offsets = batch.column_by_name("offset").unwrap().as_primitive::<Int64Type>();
    let values = batch.column_by_name("value").unwrap().as_binary::<i32>();
    let text = |row| String::from_utf8(values.value(row).to_vec()).unwrap();
    (0..batch.num_rows()).map(|row| (partitions.value(row), offsets.value(row), text(row))).collect()
}

/// Polls until `count` rows have arrived or no more rows arrive.
pub async fn read(consumer: &Consumer, count: usize) -> Vec<(i32, i64, String)> {
    let mut received = Vec::new();
    while received.len() < count {
        let batch = consumer.poll(SOON).await.unwrap();
        if batch.num_rows() == 0 {
            break;
        }
        received.extend(rows(&batch));
    }
    received
}

/// Waits until all available records are prefetched, so that further fetches return nothing.
pub async fn prefetched(broker: &Broker, consumer: &Consumer) {
    let fetches = || broker.requests().get(&ApiKey::Fetch).copied().unwrap_or_default();
    let queued = || consumer.metrics().samples().into_iter().find(|sample| sample.id == Id::QueuedBytes).unwrap().value;
    let waits = async {
        loop {
            let (before, requests) = (queued(), fetches());
            while fetches() < requests + 3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if queued() == before {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, waits).await.unwrap();
}

pub fn by_partition(rows: &[(i32, i64, String)]) -> BTreeMap<i32, Vec<i64>> {
    let mut received: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
    for (partition, offset, value) in rows {
        assert_eq!(value, &format!("{partition}:{offset}"));
        received.entry(*partition).or_default().push(*offset);
    }
    received
}

pub fn complete(partitions: i32, from: i64, to: i64) -> BTreeMap<i32, Vec<i64>> {
    (0..partitions).map(|p| (p, (from..to).collect())).collect()
}
