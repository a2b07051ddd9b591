//! Members of share groups: joins while the coordinator is not available, rows that arrive after the end of a session,
//! and acknowledgements after the locks have ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::consume_common::{SOON, broker, options, produce, rows};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int64Type};
use samsarrow_broker::{Broker, Fault};
use samsarrow_client::admin::{Admin, ConfigChange, ConfigResource};
use samsarrow_client::config::{ClientKind, OptionValue};
use samsarrow_client::share::{ShareConsumer, ShareOptions};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

/// Resource type of a group, with the protocol's code.
const GROUP_CONFIGS: i8 = 32;
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
async fn waiting_member(broker: &Broker, max_wait_ms: &str) -> Arc<ShareConsumer> {
    let consumer = Arc::new(member(broker, &[("fetch.max.wait.ms", max_wait_ms)]));
    consumer.subscribe(["t".to_owned()].into()).unwrap();
    consumer.begin_poll().unwrap();
    let started = Instant::now();
    let fetches = || broker.requests().get(&ApiKey::ShareFetch).copied().unwrap_or_default();
    while fetches() == 0 {
        assert!(started.elapsed() < SOON, "no fetch");
        consumer.wait_ready(Duration::from_millis(20)).await;
    }
    // The broker has the request, and no record to respond with.
    tokio::time::sleep(Duration::from_secs(1)).await;
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
    let consumer = waiting_member(&broker, "20000").await;
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
    let consumer = waiting_member(&broker, "5000").await;
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
    let consumer = waiting_member(&broker, "5000").await;
    produce(&broker, 1, 0, 1).await;
    assert_eq!(first_row(&consumer).await, ("0:0".to_owned(), 1));
    broker.fail_next(ApiKey::ShareFetch, Fault::Error(ErrorCode::INVALID_SHARE_SESSION_EPOCH), 1);
    assert_eq!(first_row(&consumer).await, ("0:0".to_owned(), 2));
    consumer.close(SOON, true).await;
    broker.shutdown().await;
}

/// Lets the group start at the first record.
async fn start_at_earliest(broker: &Broker) {
    let admin = Admin::new(&options(ClientKind::Admin, &broker.bootstrap_servers(), &[])).unwrap();
    let resource = ConfigResource { kind: GROUP_CONFIGS, name: "g".to_owned() };
    let value = Some("earliest".to_owned());
    let change = ConfigChange { name: "share.auto.offset.reset".to_owned(), operation: 0, value };
    let results = admin.alter_configs(&BTreeMap::from([(resource, vec![change])]), false, SOON).await.unwrap();
    assert!(results.iter().all(|(_, result)| result.is_ok()));
    admin.close().await;
}

/// Polls until rows are returned, and returns their offsets and delivery counts.
async fn poll(consumer: &ShareConsumer) -> Vec<(i64, i16)> {
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < SOON, "no rows are returned");
        consumer.begin_poll().unwrap();
        consumer.wait_ready(Duration::from_secs(1)).await;
        let Some(batch) = consumer.try_poll().unwrap() else { continue };
        let column = |name: &str| batch.column_by_name(name).unwrap();
        let offsets = column("offset").as_primitive::<Int64Type>().values().iter().copied();
        return offsets.zip(column("delivery_count").as_primitive::<Int16Type>().values().iter().copied()).collect();
    }
}

/// A request with acknowledgements of two ranges fails as a whole, and acquires the rows again. If a range was then sent
/// again alone, the broker applied it to the new delivery, whose rows were returned although they were accepted.
#[tokio::test]
async fn late_acknowledgements_do_not_apply_to_the_next_delivery() {
    let broker = broker(1, 1).await;
    start_at_earliest(&broker).await;
    produce(&broker, 1, 0, 2).await;
    let first = member(&broker, &[]);
    first.subscribe(["t".to_owned()].into()).unwrap();
    assert_eq!(poll(&first).await, [(0, 1), (1, 1)]);
    first.close(SOON, false).await;
    produce(&broker, 1, 2, 2).await;

    let second = member(&broker, &[]);
    second.subscribe(["t".to_owned()].into()).unwrap();
    assert_eq!(poll(&second).await, [(0, 2), (1, 2), (2, 1), (3, 1)]);
    broker.expire_locks("g").unwrap();
    assert_eq!(poll(&second).await, [(0, 3), (1, 3), (2, 2), (3, 2)]);
    assert_eq!(broker.share_lag("g", "t", 0), Some(4), "the rows that a poll has returned are not accepted yet");
    let outcomes = second.commit(SOON).await.unwrap().outcomes();
    assert_eq!(outcomes.len(), 1);
    assert_eq!(broker.share_lag("g", "t", 0), Some(0));
    second.close(SOON, true).await;
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
