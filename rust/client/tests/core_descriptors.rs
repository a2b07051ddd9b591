//! Recovery from an exhausted file descriptor limit. This file has only one test, because the limit applies to the
//! whole process.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on should say where, or why it skips"
)]

use std::fs::File;
use std::process::Command;
use std::time::Duration;

use samsarrow_broker::{Broker, BrokerOptions};
use samsarrow_client::cluster::Cluster;
use samsarrow_client::config::{ClientKind, OptionValue, Options};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn client_recovers_from_exhausted_descriptors() {
    let broker = Broker::start(BrokerOptions::default()).await.unwrap();
    let pairs = [("bootstrap.servers".to_owned(), OptionValue::Str(broker.bootstrap_servers()))];
    let cluster = Cluster::new(&Options::parse(ClientKind::Consumer, pairs).unwrap()).unwrap();
    let pid = std::process::id().to_string();
    if !Command::new("prlimit").args(["--pid", &pid, "--nofile=64:"]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: prlimit cannot lower the limit");
        return;
    }
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    let text = cluster.refresh(Duration::from_millis(500)).await.unwrap_err().to_string();
    assert!(text.contains("file descriptor") && text.contains("ulimit"), "{text}");
    drop(files);
    cluster.refresh(SOON).await.unwrap();
    cluster.close().await;
    broker.shutdown().await;
}
