//! Clients that are throttled: no request is sent during a throttle time (KIP-219).

use std::time::{Duration, Instant};

use crate::produce_common::{PATIENCE, broker, producer, record};
use samsarrow_broker::{Broker, Fault, Release};
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::consumer::Consumer;
use samsarrow_client::producer::Producer;
use samsarrow_client::types::TopicPartition;
use samsarrow_wire::messages::ApiKey;

#[tokio::test]
async fn throttled_clients_wait() {
    let broker = broker(1, &[("t", 1)]).await;
    let pause = Duration::from_millis(1500);
    let producer = producer(&broker, &[("batch.size", "100"), ("linger.ms", "0")]);
    producer.send(record("t", 0, "first")).await.unwrap().wait().await.unwrap();
    broker.fail_next(ApiKey::Produce, Fault::Throttle(pause), 1);
    producer.send(record("t", 0, "throttled")).await.unwrap().wait().await.unwrap();
    let throttled = Instant::now();
    for value in ["a", "b", "c"] {
        let delivery = producer.send(record("t", 0, value)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(400)).await;
        drop(delivery);
    }
    producer.send(record("t", 0, "last")).await.unwrap().wait().await.unwrap();
    assert!(throttled.elapsed() + Duration::from_millis(50) >= pause);

    let servers = [("bootstrap.servers", broker.bootstrap_servers()), ("fetch.max.wait.ms", "50".to_owned())];
    let pairs = servers.map(|(name, value)| (name.to_owned(), OptionValue::Str(value)));
    let consumer = Consumer::new(&Options::parse(ClientKind::Consumer, pairs).unwrap()).unwrap();
    consumer.assign(&[TopicPartition::new("t", 0)]).unwrap();
    consumer.seek(&TopicPartition::new("t", 0), 0).unwrap();
    broker.fail_next(ApiKey::Fetch, Fault::Throttle(pause), 1);
    let (started, mut rows) = (Instant::now(), 0);
    while rows < 6 {
        rows += consumer.poll(Duration::from_millis(100)).await.unwrap().num_rows();
        assert!(started.elapsed() < PATIENCE);
    }
    let end = Instant::now() + pause;
    while Instant::now() < end {
        consumer.poll(Duration::from_millis(100)).await.unwrap();
    }
    assert_eq!(broker.sent_while_muted(), 0, "a client has sent requests during a throttle time");
    consumer.close(PATIENCE).await;
    producer.close(PATIENCE).await.unwrap();

    // The first response on a connection may have a throttle time, too.
    broker.fail_next(ApiKey::ApiVersions, Fault::Throttle(pause), 1);
    let started = Instant::now();
    let producer = throttled_producer(&broker).await;
    assert!(started.elapsed() + Duration::from_millis(50) >= pause, "{:?}", started.elapsed());
    assert_eq!(broker.sent_while_muted(), 0, "a client has sent requests during a throttle time");
    producer.close(PATIENCE).await.unwrap();
    broker.shutdown().await;
}

async fn throttled_producer(broker: &Broker) -> Producer {
    let producer = producer(broker, &[]);
    producer.send(record("t", 0, "first")).await.unwrap().wait().await.unwrap();
    producer
}

#[tokio::test]
async fn clients_do_not_wait_again_for_brokers_that_have_waited() {
    let broker = broker(1, &[("t", 1)]).await;
    broker.set_kafka(0, Release::named("1.1")).unwrap();
    let producer = producer(&broker, &[]);
    producer.send(record("t", 0, "first")).await.unwrap().wait().await.unwrap();
    let pause = Duration::from_secs(4);
    broker.fail_next(ApiKey::Produce, Fault::Throttle(pause), 1);
    let started = Instant::now();
    producer.send(record("t", 0, "throttled")).await.unwrap().wait().await.unwrap();
    assert!(started.elapsed() >= pause);
    producer.send(record("t", 0, "next")).await.unwrap().wait().await.unwrap();
    assert!(started.elapsed() < pause * 2, "{:?}", started.elapsed());
    producer.close(PATIENCE).await.unwrap();
    broker.shutdown().await;
}
