//! Tests of records in the message formats before Kafka 0.11.

use std::sync::Arc;
use std::sync::atomic::{AtomicI16, Ordering};

use crate::produce_common::{PATIENCE, Row, broker, producer, read, record, try_producer, values};
use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use samsarrow_arrow::Columns;
use samsarrow_broker::{Broker, BrokerOptions, Fault};
use samsarrow_client::producer::ProducerRecord;
use samsarrow_wire::compression::Codec;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

const CODECS: [Codec; 4] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4];

/// Stores the version of the last Produce request.
fn watch(broker: &Broker) -> Arc<AtomicI16> {
    let version_sent = Arc::new(AtomicI16::new(-1));
    let last_version = Arc::clone(&version_sent);
    broker.on_request(ApiKey::Produce, move |request| {
        last_version.store(request.api_version, Ordering::Relaxed);
        None
    });
    version_sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn option_and_produce_version_select_the_format() {
    for (options, version, magic) in [
        (&[][..], 13, 2),
        (&[("message.format.version", "0.9.0")][..], 2, 0),
        (&[("message.format.version", "0.10.2")], 2, 1),
        (&[("message.format.version", "v1")], 2, 1),
        (&[("message.format.version", "0.11.0")], 13, 2),
        (&[("api.version.produce", "0")], 0, 0),
        (&[("api.version.produce", "1")], 1, 0),
        (&[("api.version.produce", "2")], 2, 1),
        (&[("api.version.produce", "3")], 3, 2),
        (&[("api.version.produce", "2"), ("message.format.version", "0.8.2")], 2, 0),
    ] {
        let broker = broker(1, &[("t", 1)]).await;
        let version_sent = watch(&broker);
        let producer = producer(&broker, options);
        let record = ProducerRecord {
            key: Some(Bytes::from_static(b"k")),
            timestamp: Some(123),
            ..ProducerRecord::new("t", "value")
        };
        let metadata = producer.send(record).await.unwrap().wait().await.unwrap();
        assert_eq!((metadata.offset, metadata.partition), (0, 0));
        let expected = Row {
            offset: 0,
            timestamp: if magic == 0 { -1 } else { 123 },
            key: Some(b"k".to_vec()),
            value: Some(b"value".to_vec()),
            headers: Vec::new(),
            producer_id: if magic == 2 { 0 } else { -1 },
            codec: Codec::None,
            magic,
        };
        let mut rows = read(&broker, "t", 0);
        rows[0].producer_id = rows[0].producer_id.min(0);
        assert_eq!(rows, [expected], "{options:?}");
        assert_eq!(version_sent.load(Ordering::Relaxed), version, "{options:?}");
        producer.close(PATIENCE).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_and_columns_are_sent_in_every_format_and_codec() {
    let broker = broker(1, &[("t", 1)]).await;
    let key: ArrayRef = Arc::new(StringArray::from_iter((0..3000).map(|i| (i % 3 > 0).then(|| format!("k{i}")))));
    let value: ArrayRef =
        Arc::new(BinaryArray::from_iter((0..3000).map(|i| (i % 7 > 0).then(|| vec![i as u8; i % 90]))));
    let time: ArrayRef = Arc::new(Int64Array::from_iter_values(1000..4000));
    let table = RecordBatch::try_from_iter([("key", key), ("value", value), ("t", time)]).unwrap();
    let mut base = 0;
    for format in ["0.9.0", "0.10.0"] {
        for codec in CODECS {
            let options = [("message.format.version", format), ("compression.type", codec.name()), ("linger.ms", "20")];
            let producer = producer(&broker, &options);
            let columns = Columns { timestamp: Some("t".into()), ..Columns::default() };
            let sent = producer.send_batch("t", table.clone(), columns).await.unwrap();
            let receipts = sent.wait().await.unwrap();
            assert_eq!(receipts.iter().map(|receipt| receipt.count as usize).sum::<usize>(), 3000);
            let mut deliveries = Vec::new();
            for i in 0..50 {
                deliveries.push(producer.send(record("t", 0, format!("single {i}"))).await.unwrap());
            }
            for (offset, delivery) in (base + 3000..).zip(deliveries) {
                assert_eq!(delivery.wait().await.unwrap().offset, offset);
            }
            producer.close(PATIENCE).await.unwrap();
            let rows = read(&broker, "t", 0).split_off(base as usize);
            assert_eq!(rows.len(), 3050);
            let magic = i8::from(format == "0.10.0");
            assert!(rows.iter().all(|row| row.magic == magic && row.codec == codec));
            for (i, row) in rows.iter().take(3000).enumerate() {
                assert_eq!(row.timestamp, if magic == 0 { -1 } else { 1000 + i as i64 });
                assert_eq!(row.key, (i % 3 > 0).then(|| format!("k{i}").into_bytes()));
                assert_eq!(row.value, (i % 7 > 0).then(|| vec![i as u8; i % 90]));
            }
            assert!(rows.iter().skip(3000).enumerate().all(|(i, row)| row.text() == format!("single {i}")));
            base += 3050;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_are_rejected_by_old_formats() {
    let broker = broker(1, &[("t", 1)]).await;
    for options in [("message.format.version", "0.10.2"), ("api.version.produce", "1")] {
        let producer = producer(&broker, &[options]);
        let with_header = ProducerRecord { headers: vec![("h".to_owned(), None)], ..ProducerRecord::new("t", "v") };
        let text = producer.send(with_header).await.unwrap_err().to_string();
        assert!(text.contains("headers") && text.contains("message.format.version"), "{text}");
        producer.send(ProducerRecord::new("t", "plain")).await.unwrap().wait().await.unwrap();
        producer.close(PATIENCE).await.unwrap();
    }
    assert_eq!(values(&broker, "t", 0), ["plain", "plain"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_incompatible_with_old_formats_are_errors() {
    let broker = broker(1, &[("t", 1)]).await;
    let format = ("message.format.version", "0.10.2");
    for (options, expected) in [
        (&[format, ("enable.idempotence", "true")][..], "enable.idempotence"),
        (&[format, ("compression.type", "zstd")], "zstd"),
        (&[format, ("api.version.produce", "3")], "api.version.produce"),
        (&[("api.version.produce", "2"), ("enable.idempotence", "true")], "enable.idempotence"),
        (&[("message.format.version", "lately")], "lately"),
    ] {
        let text = try_producer(&broker, options).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}

/// A batch that is too large is split, and the new batches are written in the old format as well. The same applies to a
/// batch that is retried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn splits_and_retries_keep_the_format() {
    let options =
        BrokerOptions { topics: vec![("t".to_owned(), 1)], message_max_bytes: 3000, ..BrokerOptions::default() };
    let broker = Broker::start(options).await.unwrap();
    broker.fail_next(ApiKey::Produce, Fault::Error(ErrorCode::NOT_ENOUGH_REPLICAS), 2);
    let options = [
        ("message.format.version", "0.10.0"),
        ("compression.type", "gzip"),
        ("linger.ms", "50"),
        ("batch.size", "100000"),
    ];
    let producer = producer(&broker, &options);
    let mut random = fastrand::Rng::with_seed(3);
    let payloads: Vec<Vec<u8>> = (0..40).map(|_| (0..500).map(|_| random.u8(..)).collect()).collect();
    let mut deliveries = Vec::new();
    for payload in &payloads {
        deliveries.push(producer.send(record("t", 0, payload.clone())).await.unwrap());
    }
    for (offset, delivery) in (0..).zip(deliveries) {
        assert_eq!(delivery.wait().await.unwrap().offset, offset);
    }
    let rows = read(&broker, "t", 0);
    assert!(rows.iter().all(|row| row.magic == 1 && row.codec == Codec::Gzip));
    assert_eq!(rows.iter().map(|row| row.value.clone().unwrap()).collect::<Vec<_>>(), payloads);
    producer.close(PATIENCE).await.unwrap();
}
