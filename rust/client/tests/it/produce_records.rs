//! Tests of records that are sent one by one: stored contents, partitions and results.

use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::produce_common::{PATIENCE, broker, has_codec, producer, read, record, try_producer, values};
use bytes::Bytes;
use samsarrow_client::producer::{ProducerRecord, TrySendError};
use samsarrow_wire::compression::Codec;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_record_fields_are_stored() {
    let broker = broker(1, &[("t", 1)]).await;
    let producer = producer(&broker, &[]);
    let header = |name: &str, value: Option<&'static [u8]>| (name.to_owned(), value.map(Bytes::from_static));
    let records = [
        ProducerRecord {
            key: Some(Bytes::from_static(b"k")),
            timestamp: Some(1_700_000_000_123),
            headers: vec![header("a", Some(b"1")), header("b", None), header("a", Some(b"")), header("", Some(b"x"))],
            ..ProducerRecord::new("t", "v")
        },
        ProducerRecord { key: None, value: None, timestamp: Some(-1), ..ProducerRecord::new("t", "") },
        ProducerRecord { key: Some(Bytes::new()), timestamp: Some(0), ..ProducerRecord::new("t", "") },
        ProducerRecord::new("t", "now"),
    ];
    let before = now_ms();
    let mut deliveries = Vec::new();
    for record in &records {
        deliveries.push(producer.send(record.clone()).await.unwrap());
    }
    let mut metadata = Vec::new();
    for delivery in &deliveries {
        metadata.push(delivery.wait().await.unwrap());
        assert!(delivery.is_done());
        assert_eq!(delivery.peek().unwrap().unwrap(), *metadata.last().unwrap());
    }
    let after = now_ms();
    producer.close(PATIENCE).await.unwrap();

    let rows = read(&broker, "t", 0);
    assert_eq!(rows.len(), records.len());
    for ((row, record), metadata) in rows.iter().zip(&records).zip(&metadata) {
        assert_eq!(row.key.as_deref(), record.key.as_deref());
        assert_eq!(row.value.as_deref(), record.value.as_deref());
        let headers: Vec<_> = record.headers.iter().map(|(n, v)| (n.clone(), v.as_ref().map(|v| v.to_vec()))).collect();
        assert_eq!(row.headers, headers);
        assert_eq!((metadata.offset, metadata.partition, &*metadata.topic), (row.offset, 0, "t"));
        match record.timestamp {
            Some(timestamp) => {
                assert_eq!(row.timestamp, timestamp);
                assert_eq!(metadata.timestamp, (timestamp >= 0).then_some(timestamp));
            }
            None => {
                assert!((before..=after).contains(&row.timestamp));
                assert_eq!(metadata.timestamp, Some(row.timestamp));
            }
        }
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acks_determine_the_result() {
    for (acks, idempotent) in [("0", false), ("1", false), ("all", true), ("-1", true)] {
        let broker = broker(1, &[("t", 1)]).await;
        let producer = producer(&broker, &[("acks", acks)]);
        let mut deliveries = Vec::new();
        for i in 0..100 {
            deliveries.push(producer.send(record("t", 0, i.to_string())).await.unwrap());
        }
        producer.flush(Some(PATIENCE)).await.unwrap();
        for (i, delivery) in deliveries.iter().enumerate() {
            let expected = if acks == "0" { -1 } else { i as i64 };
            assert_eq!(delivery.peek().unwrap().unwrap().offset, expected, "acks={acks}");
        }
        // With acks=0, the broker may not have read all requests yet.
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while broker.end_offset("t", 0) != Some(100) && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let rows = read(&broker, "t", 0);
        assert_eq!(rows.len(), 100, "acks={acks}");
        assert!(rows.iter().enumerate().all(|(i, row)| row.text() == i.to_string()));
        assert_eq!(rows[0].producer_id >= 0, idempotent, "acks={acks}");
        producer.close(PATIENCE).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_codecs_are_sent() {
    for (name, codec) in [
        ("none", Codec::None),
        ("gzip", Codec::Gzip),
        ("snappy", Codec::Snappy),
        ("lz4", Codec::Lz4),
        ("zstd", Codec::Zstd),
    ] {
        if !has_codec(codec) {
            continue;
        }
        let broker = broker(1, &[("t", 1)]).await;
        let producer = producer(&broker, &[("compression.type", name), ("linger.ms", "50")]);
        let text = |i: usize| format!("{i} {}", "abcdefgh".repeat(20));
        for i in 0..500 {
            producer.send(record("t", 0, text(i))).await.unwrap();
        }
        producer.close(PATIENCE).await.unwrap();
        let rows = read(&broker, "t", 0);
        assert_eq!(rows.len(), 500);
        assert!(rows.iter().enumerate().all(|(i, row)| row.text() == text(i)));
        assert!(rows.iter().all(|row| row.codec == codec), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_and_explicit_partitions_select_the_partition() {
    let broker = broker(2, &[("t", 5)]).await;
    let producer = producer(&broker, &[("batch.size", "200")]);
    for i in 0..200 {
        let key = format!("key-{}", i % 20);
        let delivery = producer.send(ProducerRecord::new("t", i.to_string()).with_key(key.clone())).await.unwrap();
        assert_eq!(delivery.partition(), samsarrow_wire::murmur2::partition(key.as_bytes(), 5));
    }
    let explicit = producer.send(record("t", 3, "explicit").with_key("key-1")).await.unwrap();
    assert_eq!(explicit.wait().await.unwrap().partition, 3);
    let mut sticky = std::collections::HashSet::new();
    for _ in 0..200 {
        sticky.insert(producer.send(ProducerRecord::new("t", vec![0; 50])).await.unwrap().partition());
    }
    assert!(sticky.len() > 1, "records without a key move on from batch to batch");
    let partitions = producer.partitions_for("t", None).await.unwrap();
    assert_eq!(partitions.iter().map(|tp| tp.partition).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    producer.close(PATIENCE).await.unwrap();
    let total: i64 = (0..5).map(|partition| broker.end_offset("t", partition).unwrap()).sum();
    assert_eq!(total, 401);
    // The records of each key are in the order in which they were sent.
    for partition in 0..5 {
        let rows = read(&broker, "t", partition);
        for key in 0..20 {
            let key = format!("key-{key}").into_bytes();
            let numbers = rows.iter().filter(|row| row.key.as_ref() == Some(&key) && row.text() != "explicit");
            let numbers: Vec<usize> = numbers.map(|row| row.text().parse().unwrap()).collect();
            assert!(numbers.is_sorted());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_records_are_rejected_immediately() {
    let broker = broker(1, &[("t", 2)]).await;
    let producer = producer(&broker, &[("max.request.size", "1000"), ("max.block.ms", "3000")]);
    producer.send(record("t", 0, "first")).await.unwrap().wait().await.unwrap();

    let error = producer.send(record("t", 0, vec![0; 2000])).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("max.request.size") && text.contains("1000") && text.contains("topic t"), "{text}");

    for partition in [2, 7, -1] {
        let error = producer.send(record("t", partition, "x")).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("no partition {partition}")) && text.contains("0 to 1"), "{text}");
    }
    // The partition may have been added since the last metadata request, so the send waits for new metadata.
    assert!(matches!(producer.try_send(record("t", 2, "x").by_ref()), Err(TrySendError::NeedsMetadata)));
    match producer.try_send(record("t", -1, "x").by_ref()) {
        Err(TrySendError::Error(error)) => assert!(error.to_string().contains("no partition -1")),
        other => panic!("{other:?}"),
    }
    let error = producer.send(record("t", 0, "x").with_timestamp(-2)).await.unwrap_err();
    assert!(error.to_string().contains("-2"), "{error}");
    producer.close(PATIENCE).await.unwrap();
    assert_eq!(values(&broker, "t", 0), ["first"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_topic_fails_after_max_block() {
    let broker = broker(1, &[]).await;
    let producer = producer(&broker, &[("max.block.ms", "2000")]);
    assert!(matches!(producer.try_send(record("nope", 0, "x").by_ref()), Err(TrySendError::NeedsMetadata)));
    let started = std::time::Instant::now();
    let error = producer.send(record("nope", 0, "x")).await.unwrap_err();
    assert!(error.to_string().contains("nope"), "{error}");
    assert!(started.elapsed() >= Duration::from_millis(1950));
    assert!(started.elapsed() < PATIENCE);
    // A topic that is created later is found by the next send.
    broker.create_topic("nope", 1).unwrap();
    producer.send(record("nope", 0, "x")).await.unwrap().wait().await.unwrap();
    producer.close(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_buffer_memory_fails_after_max_block() {
    let broker = broker(1, &[("t", 1)]).await;
    let producer =
        producer(&broker, &[("buffer.memory", "4000"), ("max.block.ms", "2000"), ("delivery.timeout.ms", "60000")]);
    producer.send(record("t", 0, "first")).await.unwrap().wait().await.unwrap();
    broker.stop_node(0).await.unwrap();
    let mut deliveries = Vec::new();
    let full = loop {
        let next = record("t", 0, vec![b'x'; 500]);
        match producer.try_send(next.by_ref()) {
            Ok(delivery) => deliveries.push(delivery),
            Err(TrySendError::Full) => break next,
            Err(other) => panic!("{other:?}"),
        }
        assert!(deliveries.len() < 10);
    };
    let started = std::time::Instant::now();
    let error = producer.send(full.clone()).await.unwrap_err();
    assert!(error.to_string().contains("buffer.memory"), "{error}");
    assert!(started.elapsed() >= Duration::from_millis(1990));
    // When the broker returns, memory is freed, and no accepted record is lost.
    broker.start_node(0).await.unwrap();
    for delivery in &deliveries {
        delivery.wait().await.unwrap();
    }
    producer.send(full).await.unwrap().wait().await.unwrap();
    producer.close(PATIENCE).await.unwrap();
    assert_eq!(broker.end_offset("t", 0), Some(deliveries.len() as i64 + 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_buffer_memory_sends_many_records() {
    let broker = broker(1, &[("t", 2)]).await;
    // The memory is much smaller than a batch, so batches must be sent early to free memory.
    let producer = producer(&broker, &[("buffer.memory", "3000"), ("linger.ms", "20000")]);
    for i in 0..200 {
        producer.send(record("t", i % 2, vec![b'x'; 500])).await.unwrap();
    }
    producer.close(PATIENCE).await.unwrap();
    assert_eq!(broker.end_offset("t", 0).unwrap() + broker.end_offset("t", 1).unwrap(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_delivers_pending_and_rejects_new_records() {
    let broker = broker(1, &[("t", 1)]).await;
    let producer = producer(&broker, &[("linger.ms", "20000")]);
    let delivery = producer.send(record("t", 0, "last")).await.unwrap();
    assert!(!delivery.is_done());
    producer.close(PATIENCE).await.unwrap();
    assert_eq!(delivery.peek().unwrap().unwrap().offset, 0);
    assert!(producer.send(record("t", 0, "late")).await.is_err());
    assert!(matches!(producer.try_send(record("t", 0, "late").by_ref()), Err(TrySendError::Error(_))));
    // The second call of `close` has no effect.
    producer.close(PATIENCE).await.unwrap();
    assert_eq!(values(&broker, "t", 0), ["last"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_left_at_close_fail_with_a_closed_error() {
    let broker = broker(1, &[("t", 1)]).await;
    let producer = producer(&broker, &[]);
    producer.send(record("t", 0, "first")).await.unwrap().wait().await.unwrap();
    broker.stop_node(0).await.unwrap();
    let stuck = producer.send(record("t", 0, "stuck")).await.unwrap();
    let error = producer.flush(Some(Duration::from_millis(100))).await.unwrap_err();
    assert!(error.to_string().contains("flush"), "{error}");
    assert!(!stuck.is_done(), "a flush that ran out of time gives nothing up");
    assert!(producer.close(Duration::from_millis(100)).await.is_err());
    let error = stuck.peek().unwrap().unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_producer_fails_pending_records() {
    let broker = broker(1, &[("t", 1)]).await;
    let producer = producer(&broker, &[("linger.ms", "20000")]);
    let delivery = producer.send(record("t", 0, "x")).await.unwrap();
    drop(producer);
    assert!(delivery.wait().await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callbacks_run_once_each_before_or_after_the_result() {
    let broker = broker(1, &[("t", 1)]).await;
    let producer = producer(&broker, &[]);
    let (sender, receiver) = mpsc::channel();
    let mut deliveries = Vec::new();
    for i in 0..50 {
        let delivery = producer.send(record("t", 0, i.to_string())).await.unwrap();
        let sender = sender.clone();
        delivery.on_done(Box::new(move |outcome| {
            sender.send((i, outcome.unwrap().offset)).unwrap();
            assert_ne!(i, 10, "a callback that panics must not take others with it");
        }));
        deliveries.push(delivery);
    }
    producer.flush(Some(PATIENCE)).await.unwrap();
    let late = sender.clone();
    deliveries[7].on_done(Box::new(move |outcome| late.send((100, outcome.unwrap().offset)).unwrap()));
    drop(sender);
    let mut calls: Vec<_> = receiver.iter().take(51).collect();
    assert_eq!(calls.pop(), Some((100, 7)));
    assert_eq!(calls, (0..50).map(|i| (i, i64::from(i))).collect::<Vec<_>>());
    producer.close(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contradictory_options_are_rejected() {
    let broker = broker(1, &[]).await;
    let options = [("enable.idempotence", "true"), ("max.in.flight.requests.per.connection", "6")];
    let error = try_producer(&broker, &options).unwrap_err();
    assert!(error.to_string().contains("max.in.flight"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callbacks_keep_the_partition_order() {
    let broker = broker(1, &[("t", 1)]).await;
    // Each record is a batch of its own, and five requests are in flight.
    let producer = producer(&broker, &[("batch.size", "1"), ("linger.ms", "0")]);
    let (note, noted) = mpsc::channel();
    for _ in 0..5_000 {
        let delivery = producer.send(record("t", 0, "v")).await.unwrap();
        let note = note.clone();
        delivery.on_done(Box::new(move |landed| note.send(landed.unwrap().offset).unwrap()));
    }
    producer.close(PATIENCE).await.unwrap();
    assert_eq!(noted.try_iter().collect::<Vec<_>>(), (0..5_000).collect::<Vec<i64>>());
}
