//! Quotas: throttle times of responses, and connections that are not read for this time (KIP-219).

use std::time::{Duration, Instant};

use samsarrow_broker::{Fault, Release};
use samsarrow_wire::messages::{ApiKey, ListGroupsRequest};

use crate::common::{Client, batch, broker, fetch_request, produce_request};

/// Entity of a quota that applies to each client id.
const EVERY_CLIENT: [(&str, Option<&str>); 1] = [("client-id", None)];

async fn list_groups(client: &mut Client) -> (i32, Instant) {
    let response = client.call(2, &ListGroupsRequest::default()).await;
    (response.throttle_time_ms, Instant::now())
}

#[tokio::test]
async fn produced_bytes_beyond_the_rate_are_throttled() {
    let broker = broker(1, &[("t", 1)]).await;
    let (mut client, mut other) = (Client::connect(&broker, 0).await, Client::connect(&broker, 0).await);
    let batch = batch(10);
    let request = produce_request("t", 0, &batch, -1);
    // A batch a second, averaged over ten seconds.
    broker.set_quota(&EVERY_CLIENT, "producer_byte_rate", Some(batch.len() as f64));
    for _ in 0..10 {
        assert_eq!(client.call(9, &request).await.throttle_time_ms, 0);
    }
    let response = client.call(9, &request).await;
    let throttled = Instant::now();
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    assert!((1..=1000).contains(&response.throttle_time_ms), "{}", response.throttle_time_ms);
    assert_eq!(broker.end_offset("t", 0), Some(110), "throttled records are appended");
    let ((throttle, at), (_, other_at)) = tokio::join!(list_groups(&mut client), list_groups(&mut other));
    assert!(other_at < at, "other connections are read");
    assert_eq!(throttle, 0);
    let pause = Duration::from_millis(u64::try_from(response.throttle_time_ms).unwrap());
    assert!(at - throttled + Duration::from_millis(20) >= pause, "{:?} < {pause:?}", at - throttled);
    broker.set_quota(&EVERY_CLIENT, "producer_byte_rate", None);
    assert_eq!(client.call(9, &request).await.throttle_time_ms, 0);
    broker.shutdown().await;
}

#[tokio::test]
async fn fetched_bytes_beyond_the_rate_are_returned_later() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    let batch = batch(10);
    for _ in 0..12 {
        client.produce("t", 0, &batch).await;
    }
    broker.set_quota(&EVERY_CLIENT, "consumer_byte_rate", Some(batch.len() as f64));
    let all = client.call(12, &fetch_request("t", &[(0, 0)])).await;
    assert_eq!(all.throttle_time_ms, 0);
    let records = all.responses[0].partitions[0].records.as_ref().unwrap();
    assert_eq!(records.len(), 10 * batch.len(), "a response is no larger than the rate allows in ten seconds");
    let throttled = client.call(12, &fetch_request("t", &[(0, 100)])).await;
    assert!((1..=2000).contains(&throttled.throttle_time_ms), "{}", throttled.throttle_time_ms);
    assert!(throttled.responses.is_empty(), "{throttled:?}");
    let later = client.call(12, &fetch_request("t", &[(0, 100)])).await;
    assert_eq!((later.throttle_time_ms, later.responses.len()), (0, 1));
    broker.shutdown().await;
}

#[tokio::test]
async fn throttle_times_are_injected() {
    let broker = broker(1, &[]).await;
    let pause = Duration::from_millis(300);
    for (release, muted) in [(None, true), (Some("2.0"), true), (Some("1.1"), false)] {
        broker.set_kafka(0, release.map(|release| Release::named(release).unwrap())).unwrap();
        let mut client = Client::connect(&broker, 0).await;
        broker.fail_next(ApiKey::ListGroups, Fault::Throttle(pause), 1);
        let started = Instant::now();
        let request = ListGroupsRequest::default();
        assert_eq!(client.call(1, &request).await.throttle_time_ms, 300);
        let responded = Instant::now();
        // Before Kafka 2.0, the broker waited before it sent the response.
        assert!(muted || responded - started >= pause, "{release:?}");
        assert_eq!(client.call(1, &request).await.throttle_time_ms, 0);
        assert!(started.elapsed() >= pause, "{release:?}");
        assert!(!muted || responded.elapsed() >= pause / 2, "{release:?}");
    }
    broker.shutdown().await;
}
