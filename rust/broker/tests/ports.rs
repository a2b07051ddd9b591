//! Where the nodes listen.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::{Client, batch};
use samsarrow_broker::{Broker, BrokerOptions};

fn options(port: u16, brokers: usize) -> BrokerOptions {
    BrokerOptions { port, brokers, topics: vec![("t".to_owned(), 1)], ..BrokerOptions::default() }
}

#[tokio::test]
async fn a_port_counts_up_over_the_nodes() {
    // Any port may be taken by others: the first pair that is free serves.
    for port in (20_000..30_000).step_by(7) {
        let Ok(broker) = Broker::start(options(port, 2)).await else { continue };
        assert_eq!(broker.bootstrap_servers(), format!("127.0.0.1:{port},127.0.0.1:{}", port + 1));
        let taken = Broker::start(options(port, 1)).await.unwrap_err();
        assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
        assert!(taken.to_string().contains(&format!("127.0.0.1:{port}")), "{taken}");
        let mut client = Client::connect(&broker, 0).await;
        assert_eq!(client.produce("t", 0, &batch(1)).await.error_code, 0);
        broker.shutdown().await;
        // Connections that linger do not keep the port.
        Broker::start(options(port, 2)).await.unwrap().shutdown().await;
        return;
    }
    panic!("no free pair of ports");
}

#[tokio::test]
async fn what_cannot_be_bound_is_an_error() {
    assert!(Broker::start(options(65_535, 2)).await.unwrap_err().to_string().contains("65535"));
    assert!(Broker::start(options(0, 0)).await.is_err());
    let twice = BrokerOptions { topics: vec![("t".to_owned(), 1), ("t".to_owned(), 1)], ..BrokerOptions::default() };
    assert_eq!(Broker::start(twice).await.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    let bad = BrokerOptions { topics: vec![("no good".to_owned(), 1)], ..BrokerOptions::default() };
    assert!(Broker::start(bad).await.unwrap_err().to_string().contains("no good"));
}

#[tokio::test]
async fn a_dropped_broker_stops() {
    let broker = Broker::start(options(0, 1)).await.unwrap();
    let mut client = Client::connect(&broker, 0).await;
    drop(broker);
    assert!(client.is_closed().await);
}
