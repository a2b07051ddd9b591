//! Tests that a caller's deadline differs from the broker's request timeout: only the latter closes a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use samsarrow_broker::{Broker, BrokerOptions, Fault};
use samsarrow_client::cluster::coordinator::Coordinator;
use samsarrow_client::cluster::{Cluster, ConnectionKind};
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::error::Error;
use samsarrow_client::group::MemberIdentity;
use samsarrow_client::offsets::commit;
use samsarrow_client::producer::{Producer, ProducerRecord};
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};
use samsarrow_wire::messages::{ApiKey, FetchRequest, FindCoordinatorRequest, ListGroupsRequest, MetadataRequest};

const SOON: Duration = Duration::from_secs(20);

async fn broker(topics: &[&str]) -> Broker {
    let topics = topics.iter().map(|name| ((*name).to_owned(), 1)).collect();
    Broker::start(BrokerOptions { topics, auto_create_topics: false, ..Default::default() }).await.unwrap()
}

fn options(broker: &Broker, kind: ClientKind, more: &[(&str, &str)]) -> Options {
    let servers = broker.bootstrap_servers();
    let all = more.iter().copied().chain([("bootstrap.servers", &*servers), ("retry.backoff.ms", "20")]);
    Options::parse(kind, all.map(|(k, v)| (k.to_owned(), OptionValue::Str(v.to_owned())))).unwrap()
}

async fn cluster(broker: &Broker, more: &[(&str, &str)]) -> (Cluster, i32) {
    let cluster = Cluster::new(&options(broker, ClientKind::Consumer, more)).unwrap();
    cluster.topics(&["t"], SOON).await.unwrap();
    let node = *cluster.metadata().brokers.keys().next().unwrap();
    cluster.send(node, ListGroupsRequest::default(), SOON).await.unwrap();
    (cluster, node)
}

/// Counts the requests of one API. Connections are counted by the requests of their handshakes.
fn count(broker: &Broker, api: ApiKey) -> Arc<AtomicUsize> {
    let counter = Arc::new(AtomicUsize::new(0));
    let requests = Arc::clone(&counter);
    broker.on_request(api, move |_| {
        requests.fetch_add(1, Ordering::Relaxed);
        None
    });
    counter
}

#[tokio::test]
async fn request_timeout_closes_the_connection() {
    let broker = broker(&["t"]).await;
    let (cluster, node) = cluster(&broker, &[("request.timeout.ms", "2000")]).await;
    let connections = count(&broker, ApiKey::ApiVersions);
    broker.fail_next(ApiKey::FindCoordinator, Fault::Delay(Duration::from_secs(60)), 1);
    let start = Instant::now();
    let error = cluster.send(node, FindCoordinatorRequest::default(), Duration::from_secs(60)).await.unwrap_err();
    assert!(start.elapsed() < SOON);
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("FindCoordinator") && error.to_string().contains("2 s"), "{error}");
    cluster.send(node, ListGroupsRequest::default(), SOON).await.unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), 1, "a new connection was made");
    // No caller waits any more, so the connection itself must detect the timeout.
    broker.fail_next(ApiKey::FindCoordinator, Fault::Delay(Duration::from_secs(60)), 1);
    let patience = Duration::from_millis(500);
    cluster.send(node, FindCoordinatorRequest::default(), patience).await.unwrap_err();
    let stuck = cluster.send(node, ListGroupsRequest::default(), SOON).await.unwrap_err();
    assert!(stuck.to_string().contains("FindCoordinator"), "{stuck}");
    cluster.close().await;
    broker.shutdown().await;
}

#[tokio::test]
async fn cancelled_request_keeps_the_connection() {
    let broker = broker(&["t"]).await;
    let (cluster, node) = cluster(&broker, &[]).await;
    let fetch = cluster.with_connections(ConnectionKind::Fetch);
    fetch.version::<FetchRequest>(node, SOON).await.unwrap();
    let connections = count(&broker, ApiKey::ApiVersions);
    let (delay, patience) = (Fault::Delay(Duration::from_millis(1500)), Duration::from_millis(300));
    for _ in 0..2 {
        broker.fail_next(ApiKey::FindCoordinator, delay.clone(), 1);
        let error = cluster.send(node, FindCoordinatorRequest::default(), patience).await.unwrap_err();
        assert!(error.to_string().contains("0.3 s"), "{error}");
        // The late response arrives first and is discarded.
        cluster.send(node, ListGroupsRequest::default(), SOON).await.unwrap();
        // The same applies to a response that the caller reads from the socket.
        broker.fail_next(ApiKey::Fetch, delay.clone(), 1);
        let (_, body) = fetch.dispatch_body(node, patience, |_| Ok(FetchRequest::default())).await.unwrap();
        assert!(matches!(body.await, Err(Error::Timeout { .. })));
        let (_, body) = fetch.dispatch_body(node, SOON, |_| Ok(FetchRequest::default())).await.unwrap();
        drop(body.await.unwrap());
        fetch.version::<FetchRequest>(node, SOON).await.unwrap();
    }
    // Only connections on which a response body was partly read are closed.
    assert!(connections.load(Ordering::Relaxed) <= 2, "{connections:?}");
    let before = connections.load(Ordering::Relaxed);
    cluster.send(node, ListGroupsRequest::default(), SOON).await.unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), before);
    cluster.close().await;
    broker.shutdown().await;
}

#[tokio::test]
async fn slow_coordinator_keeps_its_connection_and_delays_no_other_request() {
    let broker = broker(&["t"]).await;
    let (cluster, node) = cluster(&broker, &[]).await;
    let coordinator = Coordinator::new(cluster.clone(), "g");
    let offsets = [(TopicPartition::new("t", 0), OffsetAndMetadata { offset: 1, ..Default::default() })];
    commit(&cluster, &coordinator, &MemberIdentity::default(), &offsets, SOON).await.unwrap();
    let connections = count(&broker, ApiKey::ApiVersions);
    // Auto-commit has such short timeouts, because its timeout is its interval.
    broker.fail_next(ApiKey::OffsetCommit, Fault::Delay(Duration::from_secs(6)), 1);
    for _ in 0..3 {
        let late =
            commit(&cluster, &coordinator, &MemberIdentity::default(), &offsets, Duration::from_millis(150)).await;
        assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
        let patience = Duration::from_millis(1500);
        cluster.send(node, MetadataRequest { topics: Some(vec![]), ..Default::default() }, patience).await.unwrap();
    }
    commit(&cluster, &coordinator, &MemberIdentity::default(), &offsets, SOON).await.unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), 0, "new connections were made");
    cluster.close().await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_max_block_does_not_affect_records_in_flight() {
    let broker = broker(&["t", "other"]).await;
    let more = [("max.block.ms", "100"), ("linger.ms", "0"), ("enable.idempotence", "false")];
    let producer = Producer::new(&options(&broker, ClientKind::Producer, &more)).unwrap();
    let send = |topic: &str| producer.send(ProducerRecord::new(topic, "x").with_partition(0));
    let until = Instant::now() + SOON;
    while send("t").await.is_err() {
        assert!(Instant::now() < until, "100 ms are never enough for metadata");
    }
    producer.flush(Some(SOON)).await.unwrap();
    let (connections, requests) = (count(&broker, ApiKey::ApiVersions), count(&broker, ApiKey::Produce));
    let end = broker.end_offset("t", 0).unwrap();
    broker.fail_next(ApiKey::Produce, Fault::Delay(Duration::from_millis(1000)), 1);
    let delivery = send("t").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    broker.fail(ApiKey::Metadata, None, &Fault::Delay(Duration::from_millis(500)), Some(4));
    send("other").await.unwrap_err();
    delivery.wait().await.unwrap();
    assert_eq!(broker.end_offset("t", 0), Some(end + 1), "sent twice");
    assert_eq!((requests.load(Ordering::Relaxed), connections.load(Ordering::Relaxed)), (1, 0));
    producer.close(SOON).await.unwrap();
    broker.shutdown().await;
}
