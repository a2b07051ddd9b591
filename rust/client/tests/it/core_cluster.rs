//! Tests of the cluster handle against the embedded broker: concurrent callers, moved leaders, stopped nodes, idle
//! connections, closing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use samsarrow_broker::{Broker, BrokerOptions, Fault};
use samsarrow_client::cluster::metadata::{Leader, ReportedLeader};
use samsarrow_client::cluster::{Cluster, ConnectionKind};
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::error::Error;
use samsarrow_client::types::TopicPartition;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{
    ApiKey, ApiVersionsRequest, FetchRequest, FindCoordinatorRequest, MetadataRequest, OffsetFetchRequest, Uuid,
};

const SOON: Duration = Duration::from_secs(10);

async fn broker(brokers: usize, topics: &[(&str, i32)]) -> Broker {
    let topics = topics.iter().map(|(name, partitions)| ((*name).to_owned(), *partitions)).collect();
    Broker::start(BrokerOptions { brokers, topics, auto_create_topics: false, ..Default::default() }).await.unwrap()
}

fn cluster(servers: &str, more: &[(&str, &str)]) -> Cluster {
    let fast = [("reconnect.backoff.max.ms", "100"), ("retry.backoff.ms", "20"), ("retry.backoff.max.ms", "100")];
    let all = fast.into_iter().chain(more.iter().copied()).chain([("bootstrap.servers", servers)]);
    let pairs = all.map(|(k, v)| (k.to_owned(), OptionValue::Str(v.to_owned())));
    Cluster::new(&Options::parse(ClientKind::Consumer, pairs).unwrap()).unwrap()
}

/// Counts the requests of one API.
fn count(broker: &Broker, api: ApiKey) -> Arc<AtomicUsize> {
    let counter = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&counter);
    broker.on_request(api, move |_| {
        seen.fetch_add(1, Ordering::Relaxed);
        None
    });
    counter
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_callers_get_their_own_responses() {
    let broker = broker(1, &[("t", 1)]).await;
    let cluster = cluster(&broker.bootstrap_servers(), &[]);
    cluster.topics(&["t"], SOON).await.unwrap();
    let node = *cluster.metadata().brokers.keys().next().unwrap();
    let ask = |i: i32| {
        let cluster = cluster.clone();
        async move {
            for round in 0..1000 {
                // Responses have two types, so that a response delivered to the wrong caller cannot be decoded or names
                // another group.
                if (i + round) % 2 == 0 {
                    let group = format!("g{i}-{round}");
                    let build = |version| {
                        assert!(version >= 4);
                        Ok(FindCoordinatorRequest { coordinator_keys: vec![group.clone()], ..Default::default() })
                    };
                    let (_, response) = cluster.send_with(node, SOON, build).await.unwrap();
                    assert_eq!(response.coordinators[0].key, group);
                } else {
                    cluster.send(node, ApiVersionsRequest::default(), SOON).await.unwrap();
                }
            }
        }
    };
    let callers: Vec<_> = (0..16).map(|i| tokio::spawn(ask(i))).collect();
    for caller in callers {
        caller.await.unwrap();
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn concurrent_callers_share_one_metadata_request() {
    let broker = broker(1, &[("t", 3)]).await;
    broker.on_request(ApiKey::Metadata, |_| Some(Fault::Delay(Duration::from_millis(100))));
    let cluster = cluster(&broker.bootstrap_servers(), &[]);
    let connections = count(&broker, ApiKey::ApiVersions);
    let callers: Vec<_> = (0..20)
        .map(|_| {
            let cluster = cluster.clone();
            tokio::spawn(
                async move { cluster.topics(&["t"], SOON).await.unwrap().topic("t").unwrap().partitions.len() },
            )
        })
        .collect();
    for caller in callers {
        assert_eq!(caller.await.unwrap(), 3);
    }
    assert!(cluster.metadata().generation <= 2, "{} requests for 20 callers", cluster.metadata().generation);
    assert_eq!(connections.load(Ordering::Relaxed), 1, "one connection");
    broker.shutdown().await;
}

#[tokio::test]
async fn topics_waits_for_a_topic_created_later() {
    let broker = broker(1, &[]).await;
    let cluster = cluster(&broker.bootstrap_servers(), &[("allow.auto.create.topics", "false")]);
    let error = cluster.topics(&["late"], Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code()));
    assert!(error.to_string().contains("late"), "{error}");
    let waiting = tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.topics(&["late"], SOON).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    broker.create_topic("late", 2).unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().topic("late").unwrap().partitions.len(), 2);
    broker.shutdown().await;
}

#[tokio::test]
async fn metadata_is_refreshed_in_the_background_and_on_demand() {
    let broker = broker(2, &[("t", 2)]).await;
    let aging = cluster(&broker.bootstrap_servers(), &[("metadata.max.age.ms", "150")]);
    let lasting = cluster(&broker.bootstrap_servers(), &[]);
    aging.topics(&["t"], SOON).await.unwrap();
    let before = lasting.topics(&["t"], SOON).await.unwrap().leader("t", 0).unwrap();
    let other = broker.leader("t", 1).unwrap();
    assert_ne!(before.node, other);
    broker.move_leader("t", 0, other).unwrap();
    let moved = |cluster: &Cluster| cluster.metadata().leader("t", 0).is_some_and(|l| l.node == other);
    let until = Instant::now() + SOON;
    while !moved(&aging) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(moved(&aging), "not by age");
    assert!(!moved(&lasting), "it was not notified");
    let mut watch = lasting.watch();
    lasting.request_refresh();
    tokio::time::timeout(SOON, watch.wait_for(|m| m.leader("t", 0).is_some_and(|l| l.node == other)))
        .await
        .unwrap()
        .unwrap();
    let now = lasting.metadata().leader("t", 0).unwrap();
    assert!(now.epoch > before.epoch);
    // A hint with an older leader epoch changes nothing.
    let reported = |leader| ReportedLeader { tp: TopicPartition::new("t", 0), topic_id: Uuid::ZERO, leader };
    lasting.update_leaders(&[reported(before)], &[]);
    assert_eq!(lasting.metadata().leader("t", 0), Some(now));
    lasting.update_leaders(&[reported(Leader { node: before.node, epoch: now.epoch + 1 })], &[]);
    assert_eq!(lasting.metadata().leader("t", 0).map(|l| l.node), Some(before.node));
    broker.shutdown().await;
}

#[tokio::test]
async fn client_reconnects_after_a_full_outage() {
    let broker = broker(3, &[("t", 3)]).await;
    let cluster = cluster(&broker.bootstrap_servers(), &[]);
    cluster.topics(&["t"], SOON).await.unwrap();
    let nodes: Vec<i32> = cluster.metadata().brokers.keys().copied().collect();
    for node in &nodes {
        broker.stop_node(*node).await.unwrap();
    }
    let error = cluster.refresh(Duration::from_millis(400)).await.unwrap_err();
    assert!(matches!(error, Error::Connection { .. } | Error::Timeout { .. }), "{error}");
    broker.start_node(nodes[1]).await.unwrap();
    let until = Instant::now() + SOON;
    while cluster.refresh(Duration::from_secs(1)).await.is_err() {
        assert!(Instant::now() < until, "the client never recovered");
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn broken_connection_fails_pending_requests_and_is_replaced() {
    let broker = broker(1, &[("t", 1)]).await;
    let cluster = cluster(&broker.bootstrap_servers(), &[]);
    cluster.topics(&["t"], SOON).await.unwrap();
    let node = *cluster.metadata().brokers.keys().next().unwrap();
    for fault in [Fault::DropBefore, Fault::DropAfter] {
        // The first request waits at the broker, so that the later requests are in flight when the connection breaks.
        broker.fail_next(ApiKey::OffsetFetch, fault, 1);
        broker.fail_next(ApiKey::FindCoordinator, Fault::Delay(Duration::from_secs(1)), 1);
        let first = cluster.dispatch(node, SOON, |_| Ok(FindCoordinatorRequest::default())).await.unwrap();
        let dropped = cluster.dispatch(node, SOON, |_| Ok(OffsetFetchRequest::default())).await.unwrap();
        let mut behind = Vec::new();
        for _ in 0..5 {
            behind.push(cluster.dispatch(node, SOON, |_| Ok(ApiVersionsRequest::default())).await.unwrap());
        }
        first.await.unwrap();
        let error = dropped.await.unwrap_err();
        assert!(matches!(error, Error::Connection { .. }), "{error}");
        for response in behind {
            assert_eq!(response.await.unwrap_err(), error);
        }
        cluster.send(node, ApiVersionsRequest::default(), SOON).await.unwrap();
    }
    // A response with an invalid body fails only its own caller, because the frames are still in sync.
    broker.fail_next(ApiKey::FindCoordinator, Fault::Garbage, 1);
    let garbled = cluster.send(node, FindCoordinatorRequest::default(), SOON).await;
    assert!(matches!(garbled, Err(Error::Protocol { .. })), "{garbled:?}");
    cluster.send(node, ApiVersionsRequest::default(), SOON).await.unwrap();
    broker.shutdown().await;
}

#[tokio::test]
async fn long_poll_does_not_delay_other_requests() {
    let broker = broker(1, &[("t", 1)]).await;
    let cluster = cluster(&broker.bootstrap_servers(), &[]);
    cluster.topics(&["t"], SOON).await.unwrap();
    let node = *cluster.metadata().brokers.keys().next().unwrap();
    broker.fail_next(ApiKey::Fetch, Fault::Delay(Duration::from_secs(60)), 1);
    let fetch = cluster.with_connections(ConnectionKind::Fetch);
    let poll = fetch.dispatch(node, 6 * SOON, |_| Ok(FetchRequest::default())).await.unwrap();
    let poll = tokio::spawn(poll);
    cluster.send(node, MetadataRequest::default(), SOON).await.unwrap();
    assert!(!poll.is_finished());
    poll.abort();
    broker.shutdown().await;
}

#[tokio::test]
async fn only_idle_connections_are_closed() {
    let broker = broker(1, &[("t", 1)]).await;
    let connections = count(&broker, ApiKey::ApiVersions);
    let cluster = cluster(&broker.bootstrap_servers(), &[("connections.max.idle.ms", "150")]);
    cluster.topics(&["t"], SOON).await.unwrap();
    let node = *cluster.metadata().brokers.keys().next().unwrap();
    broker.fail_next(ApiKey::FindCoordinator, Fault::Delay(Duration::from_millis(600)), 1);
    cluster.send(node, FindCoordinatorRequest::default(), SOON).await.unwrap();
    let before = connections.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(500)).await;
    cluster.send(node, FindCoordinatorRequest::default(), SOON).await.unwrap();
    assert_eq!(connections.load(Ordering::Relaxed), before + 1, "a new connection after the idle timeout");
    broker.shutdown().await;
}

#[tokio::test]
async fn close_fails_pending_requests_immediately() {
    // The listener never accepts, so the handshake waits for a response.
    let unresponsive = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cluster = cluster(&unresponsive.local_addr().unwrap().to_string(), &[]);
    let waiting = tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.topics(&["t"], Duration::from_secs(60)).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    tokio::time::timeout(SOON, cluster.close()).await.unwrap();
    let error = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.name(), "ClosedError");
    assert_eq!(cluster.refresh(SOON).await.unwrap_err().name(), "ClosedError");
    cluster.close().await;
}
