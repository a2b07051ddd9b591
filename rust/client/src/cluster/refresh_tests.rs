//! What new metadata does to links.

use samsarrow_broker::{Broker, BrokerOptions, Release};
use samsarrow_wire::messages::ApiVersionsRequest;

use super::*;
use crate::config::{ClientKind, OptionValue, Options};

#[tokio::test]
async fn links_of_brokers_that_are_gone_are_dropped() {
    let soon = Duration::from_secs(10);
    let broker = Broker::start(BrokerOptions { brokers: 3, ..Default::default() }).await.unwrap();
    let servers = ("bootstrap.servers".to_owned(), OptionValue::Str(broker.bootstrap_servers()));
    let cluster = Cluster::new(&Options::parse(ClientKind::Consumer, [servers]).unwrap()).unwrap();
    cluster.refresh(soon).await.unwrap();
    let all: Vec<i32> = cluster.metadata().brokers.keys().copied().collect();
    for node in &all {
        for lane in [Lane::Control, Lane::Fetch] {
            cluster.lane(lane).version::<ApiVersionsRequest>(*node, soon).await.unwrap();
        }
    }
    let linked = || {
        let links = cluster.inner.links.lock().unwrap();
        links.keys().map(|(node, _)| *node).filter(|node| *node >= 0).collect::<Vec<_>>()
    };
    assert_eq!(linked().len(), 2 * all.len());
    // Of brokers that are still named, none.
    cluster.refresh(soon).await.unwrap();
    assert_eq!(linked().len(), 2 * all.len());
    let mut smaller = Metadata::clone(&cluster.metadata());
    smaller.brokers.retain(|node, _| *node == all[0]);
    cluster.drop_links(&smaller);
    assert_eq!(linked(), [all[0]; 2]);
    // They are connected to again once they are named again.
    cluster.version::<ApiVersionsRequest>(all[1], soon).await.unwrap();
    assert_eq!(linked().len(), 3);
    broker.shutdown().await;
}

#[tokio::test]
async fn leader_epochs_are_believed_from_metadata_v9_on() {
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
