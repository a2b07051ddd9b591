//! Members of share groups: joins while the coordinator is not available, and rows that arrive after the end of a
//! session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::consume_common::{SOON, broker, produce, rows};
use arrow_array::cast::AsArray;
use arrow_array::types::Int16Type;
use samsarrow_broker::{Broker, Fault};
use samsarrow_client::config::OptionValue;
use samsarrow_client::share::{ShareConsumer, ShareOptions};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

/// Shorter than the locks of records, which last 30 seconds.
const BEFORE_LOCKS_END: Duration = Duration::from_secs(15);

fn member(broker: &Broker, more: &[(&str, &str)]) -> ShareConsumer {
    let servers = broker.bootstrap_servers();
    let pairs = [("bootstrap.servers", &*servers), ("group.id", "g")].into_iter().chain(more.iter().copied());
    let pairs = pairs.map(|(name, value)| (name.to_owned(), OptionValue::Str(value.to_owned())));
    let (options, share) = ShareOptions::parse(pairs, false).unwrap();
    ShareConsumer::new(&options, share).unwrap()
}

/// Returns a member with a ShareFetch that waits at the broker for the first record.
async fn waiting_member(broker: &Broker) -> Arc<ShareConsumer> {
    let consumer = Arc::new(member(broker, &[("fetch.max.wait.ms", "5000")]));
    consumer.subscribe(["t".to_owned()].into()).unwrap();
    consumer.begin_poll().unwrap();
    let started = Instant::now();
    let fetches = || broker.requests().get(&ApiKey::ShareFetch).copied().unwrap_or_default();
    while fetches() == 0 {
        assert!(started.elapsed() < SOON, "no fetch");
        consumer.wait_ready(Duration::from_millis(20)).await;
    }
    // The broker has the request, and no record to respond with.
    tokio::time::sleep(Duration::from_millis(200)).await;
    consumer
}

/// Polls until a row arrives. Returns its value, and its number of deliveries.
async fn first_row(consumer: &ShareConsumer) -> (String, i16) {
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < BEFORE_LOCKS_END, "the row is locked");
        consumer.begin_poll().unwrap();
        consumer.wait_ready(Duration::from_millis(100)).await;
        if let Some(batch) = consumer.try_poll().unwrap() {
            let deliveries = batch.column_by_name("delivery_count").unwrap().as_primitive::<Int16Type>().value(0);
            return (rows(&batch).remove(0).2, deliveries);
        }
    }
}

/// Neither a new session nor the coordinator releases the rows of a removed member, so its sessions are closed.
#[tokio::test]
async fn rows_that_arrive_after_the_member_was_removed_return_to_the_group() {
    let broker = broker(1, 1).await;
    let consumer = waiting_member(&broker).await;
    let heartbeats = || broker.requests().get(&ApiKey::ShareGroupHeartbeat).copied().unwrap_or_default();
    broker.fail_next(ApiKey::ShareGroupHeartbeat, Fault::Error(ErrorCode::UNKNOWN_MEMBER_ID), 1);
    let (before, started) = (heartbeats(), Instant::now());
    // The removal, and the next join.
    while heartbeats() < before + 2 {
        assert!(started.elapsed() < SOON, "the member does not join again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    produce(&broker, 1, 0, 1).await;
    assert_eq!(first_row(&consumer).await, ("0:0".to_owned(), 2));
    consumer.close(SOON, true).await;
    broker.shutdown().await;
}

#[tokio::test]
async fn rows_that_arrive_while_the_consumer_closes_return_to_the_group() {
    let broker = broker(1, 1).await;
    let consumer = waiting_member(&broker).await;
    let closing = tokio::spawn(async move { consumer.close(SOON, true).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    produce(&broker, 1, 0, 1).await;
    closing.await.unwrap();
    let other = member(&broker, &[]);
    other.subscribe(["t".to_owned()].into()).unwrap();
    assert_eq!(first_row(&other).await, ("0:0".to_owned(), 2));
    other.close(SOON, true).await;
    broker.shutdown().await;
}

/// Another request of the session may be lost, so that the epochs differ. The broker then still has the session.
#[tokio::test]
async fn a_session_with_another_epoch_is_closed() {
    let broker = broker(1, 1).await;
    let consumer = waiting_member(&broker).await;
    produce(&broker, 1, 0, 1).await;
    assert_eq!(first_row(&consumer).await, ("0:0".to_owned(), 1));
    broker.fail_next(ApiKey::ShareFetch, Fault::Error(ErrorCode::INVALID_SHARE_SESSION_EPOCH), 1);
    assert_eq!(first_row(&consumer).await, ("0:0".to_owned(), 2));
    consumer.close(SOON, true).await;
    broker.shutdown().await;
}

/// The coordinator rejects a join without topics with `INVALID_REQUEST`, which a poll would raise.
#[tokio::test]
async fn a_member_that_unsubscribes_before_it_has_joined_stops_joining() {
    let broker = broker(1, 1).await;
    let unavailable = Fault::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    broker.fail(ApiKey::ShareGroupHeartbeat, None, &unavailable, None);
    let consumer = member(&broker, &[]);
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
