//! Tests that fetching continues or fails with a clear error when sessions end (KIP-227), logs are truncated (KIP-320),
//! leaders move or replicas fail (KIP-392).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::consume_common::{SOON, all, broker, by_partition, complete, consumer, produce, read, rows, tp};
use samsarrow_broker::{Broker, BrokerOptions, Fault, Release};
use samsarrow_client::admin::Admin;
use samsarrow_client::config::ClientKind;
use samsarrow_client::error::Error;
use samsarrow_client::types::TopicPartition;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

async fn with_sessions(partitions: i32) -> Broker {
    let topics = vec![("t".to_owned(), partitions)];
    Broker::start(BrokerOptions { topics, fetch_sessions: 10, ..BrokerOptions::default() }).await.unwrap()
}

/// Records the node, the session id and the session epoch of each Fetch request of version 15 or later.
fn record_fetches(broker: &Broker) -> Arc<Mutex<Vec<(i32, i32, i32)>>> {
    let fetches = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&fetches);
    broker.on_request(ApiKey::Fetch, move |request| {
        assert!(request.api_version >= 15);
        let number = |at: usize| i32::from_be_bytes(request.body[at..at + 4].try_into().unwrap());
        // The session id is preceded by the maximum wait, the minimum and maximum bytes, and the isolation level.
        recorded.lock().unwrap().push((request.node, number(13), number(17)));
        None
    });
    fetches
}

/// Counts the requests that start a new session.
fn new_sessions(fetches: &Mutex<Vec<(i32, i32, i32)>>) -> usize {
    fetches.lock().unwrap().iter().filter(|(_, _, epoch)| *epoch == 0).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_or_rejected_fetch_session_is_recreated() {
    for (loss, code) in [
        ("forgotten", None),
        ("not found", Some(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)),
        ("epoch", Some(ErrorCode::INVALID_FETCH_SESSION_EPOCH)),
    ] {
        let broker = with_sessions(5).await;
        let fetches = record_fetches(&broker);
        produce(&broker, 5, 0, 100).await;
        let consumer = consumer(&broker, &[("max.poll.records", "30")]);
        consumer.assign(&all(5)).unwrap();
        let mut received = Vec::new();
        for round in 1..=3 {
            received.extend(read(&consumer, 500 * round - received.len()).await);
            match code {
                None => broker.forget_fetch_sessions(),
                Some(code) => broker.fail_next(ApiKey::Fetch, Fault::Error(code), 1),
            }
            produce(&broker, 5, 100 * round, 100).await;
            // Prefetching continues without polls. The next session is lost only after the client has detected this
            // loss.
            let noticed = async {
                while new_sessions(&fetches) <= round {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(SOON, noticed).await.unwrap();
        }
        received.extend(read(&consumer, 2000 - received.len()).await);
        assert_eq!(by_partition(&received), complete(5, 0, 400), "{loss}");
        assert!(fetches.lock().unwrap().iter().any(|(_, id, epoch)| *id != 0 && *epoch > 0), "{loss}: {fetches:?}");
        consumer.close(SOON).await;
        broker.shutdown().await;
    }
}

async fn emulating(kafka: Option<Release>) -> Broker {
    let topics = vec![("t".to_owned(), 1)];
    Broker::start(BrokerOptions { topics, kafka, ..BrokerOptions::default() }).await.unwrap()
}

/// Counts the requests that compare positions with the log.
fn validations(broker: &Broker) -> usize {
    broker.requests().get(&ApiKey::OffsetForLeaderEpoch).map_or(0, |count| *count as usize)
}

/// Creates a log that is truncated to offset 60 after 100 records were read. Returns the consumer that has read them.
async fn truncated(broker: &Broker, policy: &str) -> samsarrow_client::consumer::Consumer {
    produce(broker, 1, 0, 60).await;
    produce(broker, 1, 60, 40).await;
    let consumer = consumer(broker, &[("auto.offset.reset", policy)]);
    consumer.assign(&[tp(0)]).unwrap();
    consumer.seek(&tp(0), 0).unwrap();
    assert_eq!(by_partition(&read(&consumer, 100).await), complete(1, 0, 100));
    broker.truncate("t", 0, 60).unwrap();
    assert_eq!(broker.end_offset("t", 0), Some(60));
    consumer
}

#[tokio::test(flavor = "multi_thread")]
async fn position_is_reset_to_the_truncation_offset() {
    let ways = [("earliest", 10), ("latest", 10), ("earliest", 70), ("latest", 70)];
    let kafkas = [None, Release::named("2.4"), Release::named("2.6")];
    for (kafka, (policy, new)) in kafkas.into_iter().flat_map(|kafka| ways.map(|way| (kafka, way))) {
        let broker = emulating(kafka).await;
        let consumer = truncated(&broker, policy).await;
        // If 70 records follow, the old position is in the log again, but other records precede it.
        produce(&broker, 1, 60, new).await;
        let end = 60 + new as i64;
        assert_eq!(by_partition(&read(&consumer, new).await), complete(1, 60, end), "{policy}, {kafka:?}");
        assert_eq!(consumer.position(&tp(0), SOON).await.unwrap(), end);
        assert_eq!(validations(&broker), usize::from(kafka.is_some()), "{policy}, {kafka:?}");
        consumer.close(SOON).await;
        broker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_are_validated_once_per_election_for_old_fetch_versions() {
    for (kafka, elections) in [("2.2", 0), ("2.6", 3), ("2.7", 0)] {
        let broker = emulating(Release::named(kafka)).await;
        produce(&broker, 1, 0, 60).await;
        let consumer = consumer(&broker, &[]);
        consumer.assign(&[tp(0)]).unwrap();
        assert_eq!(by_partition(&read(&consumer, 60).await), complete(1, 0, 60));
        let leader = broker.leader("t", 0).unwrap();
        for election in 1..=3 {
            broker.move_leader("t", 0, leader).unwrap();
            // No row is lost, and several further fetches return no rows.
            let fetches = broker.requests()[&ApiKey::Fetch];
            let until = Instant::now() + SOON;
            let known = || validations(&broker) >= election.min(elections) || Instant::now() > until;
            while broker.requests()[&ApiKey::Fetch] < fetches + 5 || !known() {
                assert!(consumer.poll(Duration::from_millis(20)).await.unwrap().num_rows() == 0);
            }
            assert_eq!(validations(&broker), election.min(elections), "Kafka {kafka}");
        }
        produce(&broker, 1, 60, 10).await;
        assert_eq!(by_partition(&read(&consumer, 10).await), complete(1, 60, 70));
        assert_eq!(validations(&broker), elections, "Kafka {kafka}");
        consumer.close(SOON).await;
        broker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_epoch_validation_is_retried() {
    let broker = emulating(Release::named("2.6")).await;
    broker.fail_next(ApiKey::OffsetForLeaderEpoch, Fault::Error(ErrorCode::NOT_LEADER_OR_FOLLOWER), 2);
    broker.fail_next(ApiKey::OffsetForLeaderEpoch, Fault::DropAfter, 1);
    let consumer = truncated(&broker, "latest").await;
    produce(&broker, 1, 60, 70).await;
    assert_eq!(by_partition(&read(&consumer, 70).await), complete(1, 60, 130));
    assert_eq!(validations(&broker), 4);
    consumer.close(SOON).await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_log_is_an_error_without_a_reset_policy() {
    for kafka in [None, Release::named("2.6")] {
        assert_error_without_a_reset_policy(emulating(kafka).await).await;
    }
}

async fn assert_error_without_a_reset_policy(broker: Broker) {
    let consumer = truncated(&broker, "none").await;
    produce(&broker, 1, 60, 10).await;
    // Each poll raises the error again until a seek.
    for _ in 0..2 {
        let error = consumer.poll(SOON).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::OffsetOutOfRange(_)) && text.contains("t-0"), "{text}");
        assert!(text.contains("offset 100") && text.contains("ends at 60"), "{text}");
    }
    consumer.seek(&tp(0), 60).unwrap();
    assert_eq!(by_partition(&read(&consumer, 10).await), complete(1, 60, 70));
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn epoch_ending_after_the_position_loses_no_rows() {
    let broker = broker(1, 1).await;
    let again = |times: usize| (0..times).for_each(|_| broker.move_leader("t", 0, 0).unwrap());
    produce(&broker, 1, 0, 60).await;
    again(5);
    produce(&broker, 1, 60, 40).await;
    let consumer = consumer(&broker, &[("max.poll.records", "10")]);
    consumer.assign(&[tp(0)]).unwrap();
    // No record was written in epoch 2, and the previous epoch ends at offset 60.
    consumer.seek_after(&tp(0), 30, Some(2)).unwrap();
    assert_eq!(by_partition(&read(&consumer, 70).await), BTreeMap::from([(0, (30..100).collect())]));
    consumer.close(SOON).await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_leaders_lose_no_rows() {
    let topics = vec![("t".to_owned(), 6)];
    let options = BrokerOptions { brokers: 3, topics, fetch_sessions: 10, ..BrokerOptions::default() };
    let broker = Broker::start(options).await.unwrap();
    let consumer = consumer(&broker, &[("max.poll.records", "20"), ("queued.max.bytes", "20000")]);
    consumer.assign(&all(6)).unwrap();
    let writer = produce(&broker, 6, 0, 400);
    let mover = async {
        for turn in 0..30_i32 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            broker.move_leader("t", turn % 6, (turn / 2) % 3).unwrap();
        }
    };
    let (received, (), ()) = tokio::join!(read(&consumer, 2400), writer, mover);
    assert_eq!(by_partition(&received), complete(6, 0, 400));
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn preferred_replica_is_used_until_it_fails() {
    let broker = broker(2, 1).await;
    let fetches = record_fetches(&broker);
    let leader = broker.leader("t", 0).unwrap();
    let other = 1 - leader;
    broker.prefer_replica("t", 0, Some(other)).unwrap();
    produce(&broker, 1, 0, 100).await;
    let answered_by = |from: usize| fetches.lock().unwrap()[from..].iter().map(|s| s.0).collect::<Vec<_>>();
    let consumer = consumer(&broker, &[("client.rack", "r"), ("max.poll.records", "30")]);
    consumer.assign(&[tp(0)]).unwrap();
    let mut received = read(&consumer, 100).await;
    let nodes = answered_by(0);
    // The leader receives one request, and its response names the preferred replica.
    assert!(nodes[0] == leader && nodes.len() > 1 && nodes[1..].iter().all(|node| *node == other), "{nodes:?}");

    broker.stop_node(other).await.unwrap();
    let before = fetches.lock().unwrap().len();
    produce(&broker, 1, 100, 100).await;
    received.extend(read(&consumer, 100).await);
    assert!(answered_by(before).contains(&leader));

    // After the replica has returned, the leader's next response names it again. An error of the replica also redirects
    // the client to the leader.
    broker.start_node(other).await.unwrap();
    broker.fail(ApiKey::Fetch, Some(other), &Fault::Error(ErrorCode::NOT_LEADER_OR_FOLLOWER), Some(2));
    produce(&broker, 1, 200, 100).await;
    received.extend(read(&consumer, 100).await);
    assert_eq!(by_partition(&received), complete(1, 0, 300));

    // To a client without a rack, the leader names no preferred replica.
    let before = fetches.lock().unwrap().len();
    consumer.close(SOON).await;
    let plain = crate::consume_common::consumer(&broker, &[]);
    plain.assign(&[tp(0)]).unwrap();
    assert_eq!(rows(&plain.poll(SOON).await.unwrap()).first().map(|row| row.1), Some(0));
    assert_eq!(answered_by(before).last(), Some(&leader));
    broker.shutdown().await;
}

/// Counts the Metadata requests.
fn metadata_requests(broker: &Broker) -> u64 {
    broker.requests().get(&ApiKey::Metadata).copied().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_topic_backs_off_and_raises_while_others_are_read() {
    let topics = vec![("t".to_owned(), 1), ("gone".to_owned(), 2)];
    let options = BrokerOptions { topics, auto_create_topics: false, ..BrokerOptions::default() };
    let broker = Broker::start(options).await.unwrap();
    let deleted = || [0, 1].map(|partition| TopicPartition::new("gone", partition));
    let quick = [("allow.auto.create.topics", "false"), ("default.api.timeout.ms", "10000"), ("group.id", "g")];
    let consumer = consumer(&broker, &quick);
    consumer.assign(&[vec![tp(0)], deleted().to_vec()].concat()).unwrap();
    for at in deleted() {
        assert_eq!(consumer.position(&at, SOON).await.unwrap(), 0);
    }
    let admin =
        Admin::new(&crate::consume_common::options(ClientKind::Admin, &broker.bootstrap_servers(), &[])).unwrap();
    admin.delete_topics(&["gone".into()], SOON).await.unwrap();
    let (before, start) = (metadata_requests(&broker), tokio::time::Instant::now());
    let mut received = Vec::new();
    for round in 0..10 {
        produce(&broker, 1, round * 10, 10).await;
        received.extend(read(&consumer, 10).await);
        // `metadata_requests` also counts the requests of the producers.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(by_partition(&received), complete(1, 0, 100));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (requests, seconds) = (metadata_requests(&broker) - before, start.elapsed().as_secs() + 1);
    assert!(requests <= 10 * 2 + 15 * seconds, "{requests} requests in {seconds} s");
    // When the timeout expires, a single error is raised for both partitions.
    let error = consumer.poll(3 * SOON).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code()), "{error}");
    assert!(error.to_string().contains("gone-0, gone-1"), "{error}");
    assert_eq!(consumer.poll(Duration::from_millis(300)).await.unwrap().num_rows(), 0);
    // If the topic is created again, the consumer reads it.
    broker.create_topic("gone", 2).unwrap();
    produce(&broker, 1, 100, 10).await;
    assert_eq!(by_partition(&read(&consumer, 10).await), complete(1, 100, 110));
    consumer.close(SOON).await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_offset_lookup_delays_no_other_partition() {
    let topics = vec![("t".to_owned(), 3)];
    let options = BrokerOptions { brokers: 3, topics, auto_create_topics: false, ..BrokerOptions::default() };
    let broker = Broker::start(options).await.unwrap();
    produce(&broker, 3, 0, 50).await;
    broker.move_leader("t", 0, 0).unwrap();
    (1..3).for_each(|partition| broker.move_leader("t", partition, partition).unwrap());
    broker.fail(ApiKey::ListOffsets, Some(0), &Fault::Error(ErrorCode::LEADER_NOT_AVAILABLE), None);
    for more in [&[][..], &[("group.id", "g")]] {
        let more = [more, &[("allow.auto.create.topics", "false"), ("default.api.timeout.ms", "60000")]].concat();
        let consumer = consumer(&broker, &more);
        consumer.assign(&[all(3), vec![TopicPartition::new("absent", 0)]].concat()).unwrap();
        let received = by_partition(&read(&consumer, 100).await);
        assert_eq!(received, complete(3, 0, 50).into_iter().filter(|(p, _)| *p > 0).collect());
        consumer.close(SOON).await;
    }
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_fetch_errors_back_off() {
    let broker = broker(1, 1).await;
    produce(&broker, 1, 0, 50).await;
    broker.fail(ApiKey::Fetch, None, &Fault::Error(ErrorCode::OFFSET_OUT_OF_RANGE), None);
    let consumer = consumer(&broker, &[]);
    consumer.assign(&[tp(0)]).unwrap();
    assert_eq!(consumer.poll(Duration::from_secs(2)).await.unwrap().num_rows(), 0);
    for api in [ApiKey::Fetch, ApiKey::ListOffsets] {
        let requests = broker.requests().get(&api).copied().unwrap_or(0);
        assert!((2..20).contains(&requests), "{requests} of {api:?}");
    }
    broker.clear_faults();
    assert_eq!(by_partition(&read(&consumer, 50).await), complete(1, 0, 50));
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_partition_is_raised_with_growing_delays() {
    let broker = broker(1, 2).await;
    let more = [("group.id", "g"), ("default.api.timeout.ms", "200"), ("request.timeout.ms", "200")];
    let consumer = consumer(&broker, &more);
    consumer.assign(&[tp(9)]).unwrap();
    let (start, mut errors) = (tokio::time::Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(5) {
        if consumer.poll(Duration::from_millis(20)).await.is_err() {
            errors += 1;
        }
    }
    // Errors follow after 0.1 s, 0.2 s, …, and each attempt takes 0.2 s in addition.
    assert!((2..12).contains(&errors), "{errors} errors");
    let requests = broker.requests().get(&ApiKey::OffsetFetch).copied().unwrap_or(0);
    assert!(requests < 15, "{requests} requests");
    consumer.close(SOON).await;
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_cause_is_raised_once_for_all_partitions() {
    let broker = broker(1, 20).await;
    produce(&broker, 20, 0, 1).await;
    for code in [ErrorCode::UNKNOWN_SERVER_ERROR, ErrorCode::TOPIC_AUTHORIZATION_FAILED] {
        let consumer = consumer(&broker, &[("default.api.timeout.ms", "3000"), ("request.timeout.ms", "2000")]);
        broker.fail(ApiKey::Fetch, None, &Fault::Error(code), None);
        consumer.assign(&all(20)).unwrap();
        let error = consumer.poll(SOON).await.unwrap_err();
        assert_eq!(error.code(), Some(code.code()), "{error}");
        assert!(error.to_string().contains("and 10 more"), "{error}");
        broker.clear_faults();
        assert_eq!(by_partition(&read(&consumer, 20).await), complete(20, 0, 1));
        consumer.close(SOON).await;
    }
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polling_despite_errors_backs_off() {
    let broker = broker(1, 1).await;
    for api in [ApiKey::ListOffsets, ApiKey::Fetch, ApiKey::Metadata] {
        broker.fail(api, None, &Fault::Error(ErrorCode::TOPIC_AUTHORIZATION_FAILED), None);
        let consumer = consumer(&broker, &[]);
        consumer.assign(&[tp(0)]).unwrap();
        let (before, began, mut raised) = (broker.requests(), Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(1) || raised < 2 {
            let error = consumer.poll(SOON).await.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED.code()), "{error}");
            raised += 1;
        }
        let requests: u64 = broker.requests().iter().map(|(api, n)| n - before.get(api).copied().unwrap_or(0)).sum();
        assert!((2..30).contains(&raised), "{raised} errors while {api:?} is rejected");
        assert!(requests < 100, "{requests} requests while {api:?} is rejected");
        broker.clear_faults();
        consumer.close(SOON).await;
    }
    broker.shutdown().await;
}

/// Regression test: the time of a pause counted as time in which the partition had failed, so the first temporary error
/// after it was raised.
#[tokio::test(flavor = "multi_thread")]
async fn pause_does_not_count_as_failing() {
    let broker = broker(1, 1).await;
    produce(&broker, 1, 0, 10).await;
    let consumer = consumer(&broker, &[("default.api.timeout.ms", "2000"), ("request.timeout.ms", "2000")]);
    consumer.assign(&[tp(0)]).unwrap();
    assert_eq!(read(&consumer, 10).await.len(), 10);
    let fault = Fault::Error(ErrorCode::KAFKA_STORAGE_ERROR);
    broker.fail(ApiKey::Fetch, None, &fault, None);
    let short = Duration::from_millis(500);
    assert_eq!(consumer.poll(short).await.unwrap().num_rows(), 0);
    consumer.pause(&[tp(0)]).unwrap();
    assert_eq!(consumer.poll(Duration::from_millis(2500)).await.unwrap().num_rows(), 0);
    consumer.resume(&[tp(0)]).unwrap();
    assert_eq!(consumer.poll(short).await.unwrap().num_rows(), 0);
    broker.clear_faults();
    produce(&broker, 1, 10, 10).await;
    assert_eq!(read(&consumer, 10).await.len(), 10);
    consumer.close(SOON).await;
    broker.shutdown().await;
}
