//! Tests of a consumer against the embedded broker. No record may be lost or duplicated by any failure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::consume_common::{
    SOON, all, broker, by_partition, complete, consumer, options, prefetched, produce, read, rows, tp,
};
use samsarrow_broker::Fault;
use samsarrow_client::config::ClientKind;
use samsarrow_client::consumer::{Consumer, SeekTarget};
use samsarrow_client::error::Error;
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_many_brokers_arrive_once_and_in_order() {
    let broker = broker(3, 7).await;
    produce(&broker, 7, 0, 500).await;
    let consumer = consumer(&broker, &[("max.poll.records", "300")]);
    consumer.assign(&all(7)).unwrap();
    let received = read(&consumer, 3500).await;
    assert_eq!(by_partition(&received), complete(7, 0, 500));
    assert_eq!(consumer.position(&tp(3), SOON).await.unwrap(), 500);
    assert_eq!(consumer.lag(SOON).await.unwrap().iter().map(|(_, lag)| lag).sum::<i64>(), 0);
    let empty = consumer.poll(Duration::from_millis(50)).await.unwrap();
    assert_eq!((empty.num_rows(), empty.schema()), (0, consumer.schema()));
    consumer.close(SOON).await;
    assert!(matches!(consumer.poll(SOON).await, Err(Error::Closed(_))));
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seek_pause_and_unassign_drop_only_prefetched_rows() {
    let broker = broker(1, 3).await;
    produce(&broker, 3, 0, 200).await;
    let consumer = consumer(&broker, &[("max.poll.records", "10")]);
    consumer.assign(&all(3)).unwrap();
    let first = rows(&consumer.poll(SOON).await.unwrap());
    prefetched(&broker, &consumer).await;
    consumer.seek(&tp(0), 150).unwrap();
    consumer.pause(&[tp(1)]).unwrap();
    let paused_at = consumer.position(&tp(1), SOON).await.unwrap();
    consumer.assign(&[tp(0), tp(1)]).unwrap();
    let mut received = Vec::new();
    for _ in 0..30 {
        let batch = consumer.poll(Duration::from_millis(100)).await.unwrap();
        assert!(batch.num_rows() <= 10);
        received.extend(rows(&batch));
    }
    assert_eq!(by_partition(&received), BTreeMap::from([(0, (150..200).collect())]));
    assert_eq!(consumer.position(&tp(1), SOON).await.unwrap(), paused_at);
    assert_eq!(consumer.paused(), [tp(1)]);
    consumer.resume(&[tp(1)]).unwrap();
    let received = read(&consumer, 200 - paused_at as usize).await;
    assert_eq!(by_partition(&received), BTreeMap::from([(1, (paused_at..200).collect())]));
    assert!(!first.is_empty());
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seek_to_offsets_by_name_and_timestamp() {
    let broker = broker(1, 1).await;
    produce(&broker, 1, 0, 50).await;
    let consumer = consumer(&broker, &[("group.id", "g")]);
    consumer.assign(&[tp(0)]).unwrap();
    let cases = [
        (SeekTarget::End, 50),
        (SeekTarget::Beginning, 0),
        (SeekTarget::Timestamp(1020), 20),
        (SeekTarget::Timestamp(9000), 50),
    ];
    for (target, wanted) in cases {
        consumer.seek_to(&[], target, SOON).await.unwrap();
        assert_eq!(consumer.position(&tp(0), SOON).await.unwrap(), wanted, "{target:?}");
    }
    let offset = OffsetAndMetadata { offset: 33, metadata: "m".into(), leader_epoch: None };
    consumer.commit(Some(vec![(tp(0), offset.clone())]), SOON).await.unwrap();
    consumer.seek_to(&[tp(0)], SeekTarget::Committed, SOON).await.unwrap();
    assert_eq!(consumer.position(&tp(0), SOON).await.unwrap(), 33);
    let committed = consumer.committed(&[tp(0)], None, SOON).await.unwrap();
    assert_eq!(committed, [(tp(0), Some(offset))]);
    let offsets = consumer.offsets_for_times(&[(tp(0), 1049)], SOON).await.unwrap();
    assert_eq!(offsets[0].1.map(|f| (f.offset, f.timestamp)), Some((49, 1049)));
    assert!(consumer.seek(&tp(5), 0).is_err());
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lag_comes_from_fetch_responses() {
    let broker = broker(1, 2).await;
    produce(&broker, 2, 0, 50).await;
    let consumer = consumer(&broker, &[("max.poll.records", "10")]);
    consumer.assign(&all(2)).unwrap();
    let received = read(&consumer, 30).await;
    broker.fail(ApiKey::ListOffsets, None, &Fault::DropBefore, None);
    // A reported lag is valid for a second, which may have passed on a busy machine. Then the next response updates the
    // lag.
    let lag = async || {
        let until = tokio::time::Instant::now() + SOON;
        loop {
            match consumer.lag(SOON / 10).await {
                Ok(lags) => return lags.iter().map(|(_, lag)| lag).sum::<i64>(),
                Err(error) => assert!(tokio::time::Instant::now() < until, "{error}"),
            }
        }
    };
    assert_eq!(lag().await, 100 - received.len() as i64);
    read(&consumer, 100 - received.len()).await;
    assert_eq!(lag().await, 0);
    produce(&broker, 2, 50, 5).await;
    while lag().await < 10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Partitions that are not being read report no lag.
    consumer.pause(&[tp(1)]).unwrap();
    let error = consumer.lag(SOON / 10).await.unwrap_err();
    assert!(error.to_string().contains("ListOffsets of t-1"), "{error}");
    broker.clear_faults();
    assert_eq!(lag().await, 10);
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_without_long_poll_are_requested_per_poll() {
    for no_wait in [("fetch.max.wait.ms", "0"), ("fetch.min.bytes", "0"), ("fetch.max.wait.ms", "1")] {
        let broker = broker(1, 2).await;
        produce(&broker, 2, 0, 20).await;
        let consumer = consumer(&broker, &[no_wait]);
        consumer.assign(&all(2)).unwrap();
        assert_eq!(read(&consumer, 40).await.len(), 40, "{no_wait:?}");
        let fetches = || broker.requests().get(&ApiKey::Fetch).copied().unwrap_or_default();
        tokio::time::sleep(Duration::from_millis(50)).await;
        let before = fetches();
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(fetches() - before <= 2, "{no_wait:?}: {} without a poll", fetches() - before);
        // Polls without a timeout also return rows.
        produce(&broker, 2, 20, 1).await;
        let mut received = 0;
        let deadline = tokio::time::Instant::now() + SOON;
        while received < 2 {
            received += consumer.poll(Duration::ZERO).await.unwrap().num_rows();
            assert!(tokio::time::Instant::now() < deadline, "{no_wait:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // A poll with a timeout also returns rows, and sends at most one request per millisecond.
        let before = fetches();
        let produced = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            produce(&broker, 2, 21, 1).await;
        };
        let (received, ()) = tokio::join!(consumer.poll(SOON), produced);
        assert!(received.unwrap().num_rows() > 0, "{no_wait:?}");
        assert!(fetches() - before < 3000, "{no_wait:?}: {} in a poll", fetches() - before);
        broker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn group_resumes_at_its_committed_offsets() {
    let broker = broker(1, 2).await;
    produce(&broker, 2, 0, 40).await;
    for round in 0..4 {
        let consumer = consumer(&broker, &[("group.id", "g"), ("max.poll.records", "20")]);
        consumer.assign(&all(2)).unwrap();
        let received = read(&consumer, 20).await;
        assert_eq!(received.len(), 20, "round {round}");
        consumer.commit(None, SOON).await.unwrap();
        consumer.close(SOON).await;
    }
    let consumer = consumer(&broker, &[("group.id", "g")]);
    consumer.assign(&all(2)).unwrap();
    assert_eq!(consumer.poll(Duration::from_millis(300)).await.unwrap().num_rows(), 0);
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_range_offsets_follow_the_reset_policy() {
    let broker = broker(1, 1).await;
    produce(&broker, 1, 0, 10).await;
    for (policy, wanted) in [("earliest", 0), ("latest", 10)] {
        let consumer = consumer(&broker, &[("auto.offset.reset", policy)]);
        consumer.assign(&[tp(0)]).unwrap();
        consumer.seek(&tp(0), 99).unwrap();
        let deadline = tokio::time::Instant::now() + SOON;
        let mut received = Vec::new();
        while consumer.position(&tp(0), SOON).await.unwrap() == 99 {
            assert!(tokio::time::Instant::now() < deadline, "{policy}");
            received.extend(rows(&consumer.poll(Duration::from_millis(20)).await.unwrap()));
        }
        let first = received.first().map_or(consumer.position(&tp(0), SOON).await.unwrap(), |row| row.1);
        assert_eq!(first, wanted, "{policy}");
    }
    let without_policy = consumer(&broker, &[("auto.offset.reset", "none")]);
    without_policy.assign(&[tp(0)]).unwrap();
    without_policy.seek(&tp(0), 99).unwrap();
    // Each poll raises the error again until a seek.
    for _ in 0..2 {
        let error = without_policy.poll(SOON).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::OffsetOutOfRange(_)) && text.contains("t-0") && text.contains("99"), "{text}");
        assert!(!text.contains("-1"), "{text}");
    }
    without_policy.seek(&tp(0), 5).unwrap();
    assert_eq!(read(&without_policy, 5).await.len(), 5);
    let without_commit = consumer(&broker, &[("auto.offset.reset", "none"), ("group.id", "new")]);
    without_commit.assign(&[tp(0)]).unwrap();
    let text = without_commit.poll(SOON).await.unwrap_err().to_string();
    assert!(text.contains("committed none") && text.contains("t-0"), "{text}");
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_arrive_once_while_brokers_stop_and_leaders_move() {
    let broker = broker(2, 4).await;
    produce(&broker, 4, 0, 300).await;
    let consumer = consumer(&broker, &[("max.poll.records", "50")]);
    consumer.assign(&all(4)).unwrap();
    let mut received = read(&consumer, 200).await;
    let stopped = broker.leader("t", 0).unwrap();
    broker.stop_node(stopped).await.unwrap();
    received.extend(read(&consumer, 100).await);
    broker.start_node(stopped).await.unwrap();
    for (from, to) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
        let other = broker.leader("t", to).unwrap();
        broker.move_leader("t", from, other).unwrap();
    }
    produce(&broker, 4, 300, 100).await;
    let missing = 1600 - received.len();
    received.extend(read(&consumer, missing).await);
    assert_eq!(by_partition(&received), complete(4, 0, 400));
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_faults_are_retried() {
    let broker = broker(1, 2).await;
    produce(&broker, 2, 0, 100).await;
    broker.fail_next(ApiKey::Fetch, Fault::Error(ErrorCode::NOT_LEADER_OR_FOLLOWER), 2);
    broker.fail_next(ApiKey::Fetch, Fault::Error(ErrorCode::UNKNOWN_SERVER_ERROR), 2);
    broker.fail_next(ApiKey::ListOffsets, Fault::Error(ErrorCode::LEADER_NOT_AVAILABLE), 1);
    broker.fail_next(ApiKey::ListOffsets, Fault::Error(ErrorCode::UNKNOWN_SERVER_ERROR), 1);
    broker.fail_next(ApiKey::FindCoordinator, Fault::Error(ErrorCode::COORDINATOR_NOT_AVAILABLE), 1);
    broker.fail_next(ApiKey::OffsetFetch, Fault::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS), 1);
    broker.fail_next(ApiKey::OffsetCommit, Fault::Error(ErrorCode::NOT_COORDINATOR), 2);
    let consumer = consumer(&broker, &[("group.id", "g")]);
    consumer.assign(&all(2)).unwrap();
    assert_eq!(by_partition(&read(&consumer, 200).await), complete(2, 0, 100));
    consumer.commit(None, SOON).await.unwrap();
    assert_eq!(broker.committed_offset("g", "t", 1), Some(100));
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_polls_lose_no_rows() {
    let broker = broker(1, 1).await;
    let consumer = consumer(&broker, &[("max.poll.records", "7")]);
    consumer.assign(&[tp(0)]).unwrap();
    let writer = async {
        for round in 0..20 {
            produce(&broker, 1, round * 10, 10).await;
        }
    };
    let reader = async {
        let mut received = Vec::new();
        while received.len() < 200 {
            // The poll is cancelled repeatedly while it waits.
            if let Ok(batch) = tokio::time::timeout(Duration::from_millis(3), consumer.poll(SOON)).await {
                received.extend(rows(&batch.unwrap()));
            }
        }
        received
    };
    let ((), received) = tokio::join!(writer, reader);
    assert_eq!(by_partition(&received), complete(1, 0, 200));
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fetch_errors_are_raised_by_poll() {
    let broker = broker(1, 1).await;
    let quick =
        [("default.api.timeout.ms", "500"), ("retry.backoff.max.ms", "100"), ("allow.auto.create.topics", "false")];
    let missing = consumer(&broker, &quick);
    missing.assign(&[TopicPartition::new("absent", 0)]).unwrap();
    let error = missing.poll(SOON).await.unwrap_err();
    assert!(error.to_string().contains("absent"), "{error}");
    assert_eq!(error.code(), Some(3), "{error}");

    let beyond = consumer(&broker, &quick);
    beyond.assign(&[tp(7)]).unwrap();
    let error = beyond.poll(SOON).await.unwrap_err();
    assert!(error.to_string().contains("t-7"), "{error}");

    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn poll_waits_for_unresponsive_brokers() {
    let long = Duration::from_millis(1500);
    let quick = [
        ("default.api.timeout.ms", "200"),
        ("request.timeout.ms", "200"),
        ("retry.backoff.max.ms", "100"),
        ("group.id", "g"),
    ];
    let unreachable = options(ClientKind::Consumer, "127.0.0.1:1", &quick);
    let unreachable = Consumer::new(&unreachable).unwrap();
    unreachable.assign(&[tp(0)]).unwrap();
    assert!(rows(&unreachable.poll(long).await.unwrap()).is_empty());
    let error = unreachable.position(&tp(0), Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }) && error.to_string().contains("127.0.0.1:1"), "{error}");

    // For one API after another, requests get no response within the caller's timeout.
    for api in [ApiKey::Metadata, ApiKey::FindCoordinator, ApiKey::OffsetFetch, ApiKey::ListOffsets, ApiKey::Fetch] {
        let broker = broker(1, 1).await;
        produce(&broker, 1, 0, 10).await;
        let swallowed = Arc::new(AtomicBool::new(true));
        let counter = Arc::clone(&swallowed);
        broker.on_request(api, move |_| {
            counter.load(Ordering::Acquire).then_some(Fault::Delay(Duration::from_secs(600)))
        });
        let consumer = consumer(&broker, &quick);
        consumer.assign(&[tp(0)]).unwrap();
        assert!(rows(&consumer.poll(long).await.unwrap()).is_empty(), "{api:?}");
        swallowed.store(false, Ordering::Release);
        assert_eq!(by_partition(&read(&consumer, 10).await), complete(1, 0, 10), "{api:?}");
        broker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prefetch_stays_within_its_memory() {
    let broker = broker(1, 4).await;
    produce(&broker, 4, 0, 2000).await;
    let small = [("queued.max.bytes", "4000"), ("max.partition.fetch.bytes", "2000"), ("max.poll.records", "10")];
    let consumer = consumer(&broker, &small);
    consumer.assign(&all(4)).unwrap();
    assert_eq!(by_partition(&read(&consumer, 8000).await), complete(4, 0, 2000));
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_without_records_do_not_reserve_memory() {
    let broker = broker(3, 3).await;
    let small = [("queued.max.bytes", "6000"), ("max.partition.fetch.bytes", "6000"), ("fetch.max.wait.ms", "5000")];
    let consumer = consumer(&broker, &small);
    consumer.assign(&all(3)).unwrap();
    // Either all three brokers have a pending request, or one broker's request has reserved all the memory.
    assert_eq!(consumer.poll(Duration::from_millis(500)).await.unwrap().num_rows(), 0);
    produce(&broker, 3, 0, 1).await;
    let mut received = Vec::new();
    // Responses arrive immediately, because none of them waits for the long poll of another broker.
    while received.len() < 3 {
        let batch = consumer.poll(Duration::from_secs(3)).await.unwrap();
        assert!(batch.num_rows() > 0, "only {received:?} within 3 s");
        received.extend(rows(&batch));
    }
    assert_eq!(by_partition(&received), complete(3, 0, 1));
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_larger_than_a_fetch_still_arrive() {
    let broker = broker(1, 3).await;
    produce(&broker, 3, 0, 300).await;
    let tiny = [("max.partition.fetch.bytes", "10"), ("fetch.max.bytes", "10"), ("queued.max.bytes", "10")];
    for version in ["4", "12", "13"] {
        let more: Vec<_> = tiny.into_iter().chain([("api.version.fetch", version)]).collect();
        let consumer = consumer(&broker, &more);
        consumer.assign(&all(3)).unwrap();
        assert_eq!(by_partition(&read(&consumer, 900).await), complete(3, 0, 300), "Fetch v{version}");
    }
    broker.shutdown().await;
}
