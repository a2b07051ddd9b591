//! Tests with brokers that stop, or respond incorrectly or not at all. No record may be lost, duplicated or reordered.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::produce_common::{PATIENCE, broker, producer, read, record, values};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use samsarrow_broker::{Broker, BrokerOptions, Fault};
use samsarrow_client::error::Error;
use samsarrow_client::producer::{Columns, Producer};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;
use tokio::time::Instant;

/// Small batches and fast retries lead to many requests for few records.
const BUSY: &[(&str, &str)] = &[("batch.size", "300"), ("linger.ms", "1"), ("retry.backoff.ms", "10")];

/// Sends `count` numbered records to each partition and waits for their results.
async fn send_all(producer: &Producer, partitions: i32, count: usize) {
    let mut deliveries = Vec::new();
    for i in 0..count {
        for partition in 0..partitions {
            deliveries.push(producer.send(record("t", partition, i.to_string())).await.unwrap());
        }
        if i % 50 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    for delivery in deliveries {
        delivery.wait().await.unwrap();
    }
}

fn assert_exactly_once(broker: &Broker, partitions: i32, count: usize) {
    let expected: Vec<_> = (0..count).map(|i| i.to_string()).collect();
    for partition in 0..partitions {
        let actual = values(broker, "t", partition);
        assert!(actual == expected, "partition {partition}: {} records, order or number differ", actual.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_lost_after_append_causes_no_duplicates() {
    let broker = broker(2, &[("t", 3)]).await;
    let mut requests = 0;
    broker.on_request(ApiKey::Produce, move |_| {
        requests += 1;
        (requests % 7 == 0).then_some(Fault::DropAfter)
    });
    let producer = producer(&broker, BUSY);
    send_all(&producer, 3, 600).await;
    producer.close(PATIENCE).await.unwrap();
    assert_exactly_once(&broker, 3, 600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_faults_preserve_order_and_count() {
    let broker = broker(2, &[("t", 3)]).await;
    let mut requests = 0;
    broker.on_request(ApiKey::Produce, move |_| {
        requests += 1;
        match requests % 11 {
            2 => Some(Fault::DropBefore),
            4 => Some(Fault::Error(ErrorCode::NOT_LEADER_OR_FOLLOWER)),
            6 => Some(Fault::Garbage),
            8 => Some(Fault::DropAfter),
            10 => Some(Fault::Error(ErrorCode::NOT_ENOUGH_REPLICAS)),
            _ => None,
        }
    });
    let producer = producer(&broker, BUSY);
    send_all(&producer, 3, 500).await;
    producer.close(PATIENCE).await.unwrap();
    assert_exactly_once(&broker, 3, 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_topic_with_unready_leader_preserves_order() {
    let broker = broker(1, &[("t", 3)]).await;
    let mut requests = 0;
    broker.on_request(ApiKey::Produce, move |_| {
        requests += 1;
        (requests == 1).then(|| {
            // During this time, the producer sends the next batches to a leader that does not know its sequence yet.
            std::thread::sleep(Duration::from_millis(100));
            Fault::Error(ErrorCode::NOT_LEADER_OR_FOLLOWER)
        })
    });
    let producer = producer(&broker, BUSY);
    send_all(&producer, 3, 500).await;
    producer.close(PATIENCE).await.unwrap();
    assert_exactly_once(&broker, 3, 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broker_restart_loses_no_records() {
    let broker = Arc::new(broker(1, &[("t", 2)]).await);
    let producer = producer(&broker, BUSY);
    producer.send(record("t", 0, "0")).await.unwrap().wait().await.unwrap();
    producer.send(record("t", 1, "0")).await.unwrap().wait().await.unwrap();
    let chaos = {
        let broker = Arc::clone(&broker);
        tokio::spawn(async move {
            for _ in 0..4 {
                broker.stop_node(0).await.unwrap();
                tokio::time::sleep(Duration::from_millis(60)).await;
                broker.start_node(0).await.unwrap();
                tokio::time::sleep(Duration::from_millis(120)).await;
            }
        })
    };
    let mut deliveries = Vec::new();
    for i in 1..800 {
        for partition in 0..2 {
            deliveries.push(producer.send(record("t", partition, i.to_string())).await.unwrap());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    chaos.await.unwrap();
    for delivery in deliveries {
        delivery.wait().await.unwrap();
    }
    producer.close(PATIENCE).await.unwrap();
    assert_exactly_once(&broker, 2, 800);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producer_follows_a_moved_leader() {
    let broker = Arc::new(broker(3, &[("t", 2)]).await);
    let producer = producer(&broker, BUSY);
    let chaos = {
        let broker = Arc::clone(&broker);
        tokio::spawn(async move {
            for round in 0..12 {
                tokio::time::sleep(Duration::from_millis(25)).await;
                broker.move_leader("t", round % 2, round % 3).unwrap();
            }
        })
    };
    let mut deliveries = Vec::new();
    for i in 0..400 {
        for partition in 0..2 {
            deliveries.push(producer.send(record("t", partition, i.to_string())).await.unwrap());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    chaos.await.unwrap();
    for delivery in deliveries {
        delivery.wait().await.unwrap();
    }
    producer.close(PATIENCE).await.unwrap();
    assert_exactly_once(&broker, 2, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_without_idempotence_when_one_request_is_in_flight() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut requests = 0;
    broker.on_request(ApiKey::Produce, move |_| {
        requests += 1;
        (requests % 3 == 0).then_some(Fault::Error(ErrorCode::NOT_LEADER_OR_FOLLOWER))
    });
    let mut options = BUSY.to_vec();
    options.extend([("enable.idempotence", "false"), ("max.in.flight.requests.per.connection", "1")]);
    let producer = producer(&broker, &options);
    send_all(&producer, 1, 500).await;
    producer.close(PATIENCE).await.unwrap();
    assert_exactly_once(&broker, 1, 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_broker_fails_records_at_the_delivery_timeout() {
    let broker = broker(1, &[("t", 1)]).await;
    let options = [("delivery.timeout.ms", "3000"), ("request.timeout.ms", "2000"), ("linger.ms", "0")];
    let producer = producer(&broker, &options);
    producer.send(record("t", 0, "first")).await.unwrap().wait().await.unwrap();
    broker.stop_node(0).await.unwrap();
    let started = std::time::Instant::now();
    let mut deliveries = Vec::new();
    for i in 0..10 {
        deliveries.push(producer.send(record("t", 0, i.to_string())).await.unwrap());
    }
    for delivery in deliveries {
        let error = delivery.wait().await.unwrap_err();
        assert!(error.to_string().contains("t-0"), "{error}");
    }
    assert!(started.elapsed() >= Duration::from_millis(2950));
    // The next batches succeed, because the broker accepts their sequence.
    broker.start_node(0).await.unwrap();
    let delivery = producer.send(record("t", 0, "last")).await.unwrap();
    assert_eq!(delivery.wait().await.unwrap().offset, 1);
    producer.close(PATIENCE).await.unwrap();
    assert_eq!(values(&broker, "t", 0), ["first", "last"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_record_does_not_block_later_ones() {
    let broker = broker(1, &[("t", 1)]).await;
    let options = [("delivery.timeout.ms", "3000"), ("request.timeout.ms", "2000"), ("linger.ms", "0")];
    let producer = producer(&broker, &options);
    producer.send(record("t", 0, "0")).await.unwrap().wait().await.unwrap();
    // The batch is never appended, but the producer does not know this, so the sequence of the next batches starts with
    // a gap.
    broker.fail_next(ApiKey::Produce, Fault::DropBefore, usize::MAX);
    let lost = producer.send(record("t", 0, "lost")).await.unwrap();
    lost.wait().await.unwrap_err();
    broker.clear_faults();
    for i in 1..20 {
        producer.send(record("t", 0, i.to_string())).await.unwrap().wait().await.unwrap();
    }
    producer.close(PATIENCE).await.unwrap();
    let rows = read(&broker, "t", 0);
    assert_eq!(
        rows.iter().map(|row| row.text()).collect::<Vec<_>>(),
        (0..20).map(|i| i.to_string()).collect::<Vec<_>>()
    );
    assert_eq!(rows[0].producer_id, rows[1].producer_id);
    let epochs = broker.batches("t", 0).unwrap().into_iter().map(|batch| batch.header.producer_epoch);
    assert_eq!(epochs.take(3).collect::<Vec<_>>(), [0, 1, 1], "the gap requires a new epoch");
}

/// Regression test: a record that was reported as failed was appended behind later records, because these had another
/// producer ID and the leader still accepted the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_request_of_an_expired_record_is_rejected() {
    let broker = broker(1, &[("t", 1)]).await;
    let options = [("delivery.timeout.ms", "2000"), ("request.timeout.ms", "1000"), ("linger.ms", "0")];
    let producer = producer(&broker, &options);
    producer.send(record("t", 0, "0")).await.unwrap().wait().await.unwrap();
    // The first request arrives after the record has expired; the others do not arrive.
    broker.fail_next(ApiKey::Produce, Fault::Delay(Duration::from_secs(6)), 1);
    broker.fail_next(ApiKey::Produce, Fault::DropBefore, usize::MAX);
    let start = Instant::now();
    let expired = producer.send(record("t", 0, "expired")).await.unwrap();
    expired.wait().await.unwrap_err();
    broker.clear_faults();
    for i in 1..4 {
        producer.send(record("t", 0, i.to_string())).await.unwrap().wait().await.unwrap();
    }
    assert!(start.elapsed() < Duration::from_secs(6));
    tokio::time::sleep_until(start + Duration::from_secs(7)).await;
    producer.close(PATIENCE).await.unwrap();
    assert_eq!(values(&broker, "t", 0), ["0", "1", "2", "3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_record_does_not_block_later_ones() {
    let broker = broker(1, &[("t", 1)]).await;
    let producer = producer(&broker, &[("linger.ms", "0")]);
    producer.send(record("t", 0, "0")).await.unwrap().wait().await.unwrap();
    broker.fail_next(ApiKey::Produce, Fault::Error(ErrorCode::TOPIC_AUTHORIZATION_FAILED), 1);
    let rejected = producer.send(record("t", 0, "rejected")).await.unwrap();
    let error = rejected.wait().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED.code()));
    assert!(!error.retriable());
    producer.send(record("t", 0, "1")).await.unwrap().wait().await.unwrap();
    producer.close(PATIENCE).await.unwrap();
    assert_eq!(values(&broker, "t", 0), ["0", "1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_too_large_for_the_broker_is_split() {
    let options = BrokerOptions {
        topics: vec![("t".to_owned(), 1)],
        message_max_bytes: 1000,
        auto_create_topics: false,
        ..BrokerOptions::default()
    };
    let broker = Broker::start(options).await.unwrap();
    let producer = producer(&broker, &[("batch.size", "20000"), ("linger.ms", "20")]);
    let mut deliveries = Vec::new();
    for i in 0..300 {
        let header = ("n".to_owned(), Some(i.to_string().into()));
        let mut record = record("t", 0, format!("{i} {}", "x".repeat(60))).with_timestamp(1000 + i);
        record.headers.push(header);
        deliveries.push(producer.send(record).await.unwrap());
    }
    for (i, delivery) in deliveries.iter().enumerate() {
        assert_eq!(delivery.wait().await.unwrap().offset, i as i64);
    }
    let alone = producer.send(record("t", 0, vec![b'x'; 2000])).await.unwrap();
    assert_eq!(alone.wait().await.unwrap_err().code(), Some(ErrorCode::MESSAGE_TOO_LARGE.code()));
    producer.send(record("t", 0, "after")).await.unwrap().wait().await.unwrap();
    producer.close(PATIENCE).await.unwrap();
    let rows = read(&broker, "t", 0);
    assert_eq!(rows.len(), 301);
    for (i, row) in rows.iter().take(300).enumerate() {
        assert!(row.text().starts_with(&format!("{i} ")));
        assert_eq!(row.timestamp, 1000 + i as i64);
        assert_eq!(row.headers, [("n".to_owned(), Some(i.to_string().into_bytes()))]);
    }
}

/// Regression test: records behind one that is too large were sent only after `retry.backoff.ms`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_behind_an_oversized_one_are_sent_at_once() {
    let options = BrokerOptions {
        topics: vec![("t".to_owned(), 1)],
        message_max_bytes: 1000,
        auto_create_topics: false,
        ..BrokerOptions::default()
    };
    let broker = Broker::start(options).await.unwrap();
    for idempotent in ["true", "false"] {
        // In batches of several records, which are split, and in batches of one record, of which several are in flight.
        for batch_size in ["20000", "1"] {
            let producer = producer(
                &broker,
                &[
                    ("batch.size", batch_size),
                    ("enable.idempotence", idempotent),
                    ("retry.backoff.ms", "60000"),
                    ("retry.backoff.max.ms", "60000"),
                ],
            );
            let before = values(&broker, "t", 0).len();
            let mut deliveries = Vec::new();
            for i in 0..20 {
                let size = if i % 7 == 3 { 2000 } else { 10 };
                deliveries.push(producer.send(record("t", 0, vec![b'x'; size])).await.unwrap());
            }
            let mut offsets = Vec::new();
            for (i, delivery) in deliveries.iter().enumerate() {
                let result = tokio::time::timeout(PATIENCE, delivery.wait()).await.unwrap();
                if i % 7 == 3 {
                    let error = result.unwrap_err();
                    assert_eq!(error.code(), Some(ErrorCode::MESSAGE_TOO_LARGE.code()));
                    assert!(error.to_string().contains("raise max.message.bytes of the topic"), "{error}");
                } else {
                    offsets.push(result.unwrap().offset);
                }
            }
            if idempotent == "false" {
                // Several batches are in flight, and a split batch follows those that were sent behind it.
                offsets.sort_unstable();
            }
            assert_eq!(offsets, (before as i64..).take(offsets.len()).collect::<Vec<_>>());
            producer.close(PATIENCE).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producer_id_requests_are_retried() {
    let broker = broker(1, &[("t", 1)]).await;
    broker.fail_next(ApiKey::InitProducerId, Fault::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS), 3);
    let producer = producer(&broker, &[("linger.ms", "0")]);
    producer.send(record("t", 0, "x")).await.unwrap().wait().await.unwrap();
    producer.close(PATIENCE).await.unwrap();
    assert!(read(&broker, "t", 0)[0].producer_id >= 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unauthorized_idempotence_is_reported() {
    let broker = broker(1, &[("t", 1)]).await;
    broker.fail_next(ApiKey::InitProducerId, Fault::Error(ErrorCode::CLUSTER_AUTHORIZATION_FAILED), usize::MAX);
    let producer = producer(&broker, &[("linger.ms", "0")]);
    let delivery = producer.send(record("t", 0, "x")).await.unwrap();
    let error = delivery.wait().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::CLUSTER_AUTHORIZATION_FAILED.code()));
    assert!(error.to_string().contains("idempoten"), "{error}");
    producer.close(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporarily_missing_topics_keep_their_sequences() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut options = BUSY.to_vec();
    options.push(("metadata.max.age.ms", "20"));
    let producer = producer(&broker, &options);
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    producer.send(record("t", 0, "0")).await.unwrap().wait().await.unwrap();
    broker.on_request(ApiKey::Metadata, move |_| {
        let requests = counter.fetch_add(1, Ordering::Relaxed);
        requests.is_multiple_of(2).then_some(Fault::Error(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))
    });
    let mut deliveries = Vec::new();
    for i in 1..300 {
        deliveries.push(producer.send(record("t", 0, i.to_string())).await.unwrap());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for delivery in deliveries {
        delivery.wait().await.unwrap();
    }
    producer.close(PATIENCE).await.unwrap();
    assert!(requests.load(Ordering::Relaxed) > 2, "metadata was requested again");
    let rows = read(&broker, "t", 0);
    assert!(rows.iter().enumerate().all(|(i, row)| row.text() == i.to_string()));
    let mut identities: HashMap<i64, usize> = HashMap::new();
    rows.iter().for_each(|row| *identities.entry(row.producer_id).or_default() += 1);
    assert_eq!((rows.len(), identities.len()), (300, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn produce_version_is_configurable() {
    let broker = broker(1, &[("t", 2)]).await;
    let requests = Arc::new(AtomicUsize::new(0));
    let version = Arc::clone(&requests);
    broker.on_request(ApiKey::Produce, move |request| {
        version.store(request.api_version as usize, Ordering::Relaxed);
        None
    });
    for (round, expected_version) in (0..=13).enumerate() {
        let producer = producer(&broker, &[("api.version.produce", &expected_version.to_string()), ("linger.ms", "0")]);
        for partition in 0..2 {
            let delivery = producer.send(record("t", partition, expected_version.to_string())).await.unwrap();
            assert_eq!(delivery.wait().await.unwrap().offset, round as i64);
        }
        assert_eq!(requests.load(Ordering::Relaxed), expected_version);
        producer.close(PATIENCE).await.unwrap();
    }
    let expected: Vec<_> = (0..=13).map(|version: i32| version.to_string()).collect();
    assert_eq!(values(&broker, "t", 1), expected);

    let options = [("api.version.produce", "6"), ("compression.type", "zstd"), ("linger.ms", "0")];
    let producer = producer(&broker, &options);
    let error = producer.send(record("t", 0, "x")).await.unwrap().wait().await.unwrap_err();
    assert!(error.to_string().contains("compression.type"), "{error}");
    producer.close(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_flushes_and_sends_complete() {
    let broker = Arc::new(broker(2, &[("t", 4)]).await);
    let producer = Arc::new(producer(&broker, &[("buffer.memory", "20000"), ("linger.ms", "3")]));
    let mut tasks = Vec::new();
    for task in 0..8 {
        let producer = Arc::clone(&producer);
        tasks.push(tokio::spawn(async move {
            for i in 0..300 {
                let delivery = producer.send(record("t", (task + i) % 4, vec![b'x'; 200])).await.unwrap();
                if i % 100 == 50 {
                    producer.flush(Some(PATIENCE)).await.unwrap();
                    assert!(delivery.is_done());
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    producer.close(PATIENCE).await.unwrap();
    let total: i64 = (0..4).map(|partition| broker.end_offset("t", partition).unwrap()).sum();
    assert_eq!(total, 8 * 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn send_call_does_not_join_the_next_transaction() {
    let broker = broker(1, &[("t", 1)]).await;
    let producer = producer(&broker, &[("transactional.id", "x")]);
    producer.begin_transaction().await.unwrap();
    let reservation = producer.reserve(record("t", 0, "single")).await.unwrap();
    let call = producer.batch_call(None);
    let rows = || {
        let values: ArrayRef = Arc::new(StringArray::from(vec!["row"; 2]));
        RecordBatch::try_from_iter([("value", values)]).unwrap()
    };
    producer.send_batch_of(&call, "t", rows(), Columns::default()).await.unwrap();
    producer.abort_transaction(None).await.unwrap();
    producer.begin_transaction().await.unwrap();
    let single = reservation.send().unwrap_err();
    let batch = producer.send_batch_of(&call, "t", rows(), Columns::default()).await.unwrap_err();
    for error in [single, batch] {
        assert!(matches!(error, Error::Aborted(_)), "{error}");
    }
    producer.send(record("t", 0, "second")).await.unwrap();
    producer.commit_transaction(None).await.unwrap();
    assert_eq!(producer.cancel_batch(&call), 2);
    // The log contains the records and the markers of both transactions.
    let sent: Vec<_> = read(&broker, "t", 0).into_iter().filter_map(|row| row.value).collect();
    assert!(sent.contains(&b"second".to_vec()) && !sent.contains(&b"single".to_vec()), "{sent:?}");
}
