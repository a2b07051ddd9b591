//! Tests of metadata refresh: connections after metadata changes, and leader epochs of old brokers.

use std::task::Poll;

use samsarrow_broker::{Broker, BrokerOptions, Release};
use samsarrow_wire::messages::ApiVersionsRequest;

use super::*;
use crate::config::{ClientKind, OptionValue, Options};

#[tokio::test]
async fn connections_to_removed_brokers_are_closed() {
    let soon = Duration::from_secs(10);
    let broker = Broker::start(BrokerOptions { brokers: 3, ..Default::default() }).await.unwrap();
    let servers = ("bootstrap.servers".to_owned(), OptionValue::Str(broker.bootstrap_servers()));
    let cluster = Cluster::new(&Options::parse(ClientKind::Consumer, [servers]).unwrap()).unwrap();
    cluster.refresh(soon).await.unwrap();
    let all: Vec<i32> = cluster.metadata().brokers.keys().copied().collect();
    for node in &all {
        for kind in [ConnectionKind::Control, ConnectionKind::Fetch] {
            cluster.with_connections(kind).version::<ApiVersionsRequest>(*node, soon).await.unwrap();
        }
    }
    let connected_nodes = || {
        let handles = cluster.inner.handles.lock().unwrap();
        handles.keys().map(|(node, _)| *node).filter(|node| *node >= 0).collect::<Vec<_>>()
    };
    assert_eq!(connected_nodes().len(), 2 * all.len());
    // Connections to brokers that are still in the metadata stay open.
    cluster.refresh(soon).await.unwrap();
    assert_eq!(connected_nodes().len(), 2 * all.len());
    let mut smaller = Metadata::clone(&cluster.metadata());
    smaller.brokers.retain(|node, _| *node == all[0]);
    cluster.close_removed_brokers(&smaller);
    assert_eq!(connected_nodes(), [all[0]; 2]);
    // A broker that reappears gets a new connection.
    cluster.version::<ApiVersionsRequest>(all[1], soon).await.unwrap();
    assert_eq!(connected_nodes().len(), 3);
    broker.shutdown().await;
}

#[tokio::test]
async fn leader_epochs_are_ignored_before_metadata_v9() {
    for (kafka, epochs) in [("2.3", -1), ("2.4", 0)] {
        let kafka = Release::named(kafka);
        let topics = vec![("t".to_owned(), 1)];
        let broker = Broker::start(BrokerOptions { topics, kafka, ..Default::default() }).await.unwrap();
        let servers = ("bootstrap.servers".to_owned(), OptionValue::Str(broker.bootstrap_servers()));
        let cluster = Cluster::new(&Options::parse(ClientKind::Consumer, [servers]).unwrap()).unwrap();
        let metadata = cluster.topics(&["t"], Duration::from_secs(10)).await.unwrap();
        assert_eq!(metadata.leader("t", 0).map(|leader| leader.epoch), Some(epochs), "{kafka:?}");
        broker.shutdown().await;
    }
}

/// Regression test: the refresh of a call that was no longer polled kept the lock, so that no other call got metadata.
#[tokio::test]
async fn refresh_does_not_wait_for_calls_that_are_not_polled() {
    let broker = Broker::start(BrokerOptions::default()).await.unwrap();
    let servers = ("bootstrap.servers".to_owned(), OptionValue::Str(broker.bootstrap_servers()));
    let cluster = Cluster::new(&Options::parse(ClientKind::Consumer, [servers]).unwrap()).unwrap();
    let mut calls: Vec<_> = (0..2).map(|_| Box::pin(cluster.refresh(Duration::from_secs(60)))).collect();
    for call in &mut calls {
        let is_pending = std::future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending()));
        assert!(is_pending.await);
    }
    cluster.refresh(Duration::from_secs(10)).await.unwrap();
    drop(calls);
    broker.shutdown().await;
}
