//! Members of share groups that join while the coordinator is not available.

use std::time::{Duration, Instant};

use crate::consume_common::{SOON, broker};
use samsarrow_broker::Fault;
use samsarrow_client::config::OptionValue;
use samsarrow_client::share::{ShareConsumer, ShareOptions};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

/// The coordinator rejects a join without topics with `INVALID_REQUEST`, which a poll would raise.
#[tokio::test]
async fn a_member_that_unsubscribes_before_it_has_joined_stops_joining() {
    let broker = broker(1, 1).await;
    let unavailable = Fault::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    broker.fail(ApiKey::ShareGroupHeartbeat, None, &unavailable, None);
    let pairs = [("bootstrap.servers", broker.bootstrap_servers()), ("group.id", "g".to_owned())];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), OptionValue::Str(value)));
    let (options, share) = ShareOptions::parse(pairs, false).unwrap();
    let consumer = ShareConsumer::new(&options, share).unwrap();
    let heartbeats = || broker.requests().get(&ApiKey::ShareGroupHeartbeat).copied().unwrap_or_default();

    consumer.subscribe(["t".to_owned()].into()).unwrap();
    consumer.begin_poll().unwrap();
    let started = Instant::now();
    while heartbeats() < 2 {
        assert!(started.elapsed() < SOON, "the join is not repeated");
        consumer.wait_ready(Duration::from_millis(20)).await;
    }
    consumer.unsubscribe().unwrap();
    broker.clear_faults();
    // Longer than the delay before a failed heartbeat is repeated.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(consumer.try_poll().unwrap().is_none());

    consumer.subscribe(["t".to_owned()].into()).unwrap();
    while consumer.assignment().is_empty() {
        assert!(started.elapsed() < 3 * SOON, "the member does not join again");
        consumer.begin_poll().unwrap();
        consumer.wait_ready(Duration::from_millis(100)).await;
        assert!(consumer.try_poll().unwrap().is_none());
    }
    consumer.close(SOON, true).await;
    broker.shutdown().await;
}
