//! Tests of responses, with an embedded broker.

use std::collections::BTreeSet;

use arrow_array::cast::AsArray;
use arrow_array::types::Int16Type;
use bytes::Bytes;
use samsarrow_broker::{Broker, BrokerOptions};
use samsarrow_wire::messages::ApiKey;

use super::super::ShareConsumer;
use super::super::options::ShareOptions;
use super::*;
use crate::config::{ClientKind, OptionValue, Options};
use crate::producer::{Producer, ProducerRecord};

const SOON: Duration = Duration::from_secs(10);

fn pairs(all: &[(&str, &str)]) -> Vec<(String, OptionValue)> {
    all.iter().map(|(name, value)| ((*name).to_owned(), OptionValue::Str((*value).to_owned()))).collect()
}

async fn produce(servers: &str) {
    let options = Options::parse(ClientKind::Producer, pairs(&[("bootstrap.servers", servers)])).unwrap();
    let producer = Producer::new(&options).unwrap();
    let record = ProducerRecord {
        topic: "t".into(),
        partition: Some(0),
        timestamp: None,
        key: None,
        value: Some(Bytes::from_static(b"v")),
        headers: Vec::new(),
    };
    producer.send(record).await.unwrap();
    producer.close(SOON).await.unwrap();
}

#[tokio::test]
async fn records_of_a_partition_without_a_known_name_are_released() {
    let broker =
        Broker::start(BrokerOptions { topics: vec![("t".to_owned(), 1)], ..Default::default() }).await.unwrap();
    let servers = broker.bootstrap_servers();
    let all = [("bootstrap.servers", &*servers), ("group.id", "g"), ("fetch.max.wait.ms", "20000")];
    let (options, share) = ShareOptions::parse(pairs(&all), false).unwrap();
    let consumer = ShareConsumer::new(&options, share).unwrap();
    consumer.subscribe(BTreeSet::from(["t".to_owned()])).unwrap();
    consumer.begin_poll().unwrap();
    let started = Instant::now();
    while !broker.requests().contains_key(&ApiKey::ShareFetch) {
        assert!(started.elapsed() < SOON, "no fetch");
        consumer.wait_ready(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The fetch waits at the broker. Its response contains a partition that the client does not know any more.
    consumer.shared.with(|state| state.sessions.values_mut().for_each(|session| session.listed.clear()));
    produce(&servers).await;
    let batch = loop {
        assert!(started.elapsed() < 2 * SOON, "the record is locked");
        consumer.begin_poll().unwrap();
        consumer.wait_ready(Duration::from_millis(100)).await;
        if let Some(batch) = consumer.try_poll().unwrap() {
            break batch;
        }
    };
    assert_eq!(batch.column_by_name("delivery_count").unwrap().as_primitive::<Int16Type>().value(0), 2);
    consumer.close(SOON, true).await;
    broker.shutdown().await;
}
