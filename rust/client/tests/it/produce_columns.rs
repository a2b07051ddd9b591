//! Tests of Arrow columns that are sent as a whole: all types, all ways to choose a partition, and more data than
//! memory.

use std::sync::Arc;
use std::time::Duration;

use crate::produce_common::{PATIENCE, broker, has_codec, producer, read, record, values};
use arrow_array::builder::{BinaryBuilder, ListBuilder, StringBuilder, StructBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, FixedSizeBinaryArray, Int32Array, Int64Array,
    LargeBinaryArray, LargeStringArray, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Fields};
use samsarrow_broker::{Broker, BrokerOptions};
use samsarrow_client::producer::Columns;
use samsarrow_wire::compression::Codec;
use samsarrow_wire::error_code::ErrorCode;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn texts(count: usize, size: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..count).map(|i| format!("{i:0size$}"))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_string_and_binary_types_are_sent() {
    let plain = [Some("a"), None, Some(""), Some("a value that is longer than a view holds inline"), Some("a")];
    let bytes = || plain.iter().map(|value| value.map(str::as_bytes));
    let dictionary: DictionaryArray<Int32Type> = plain.iter().copied().collect();
    let kinds: Vec<(&str, ArrayRef)> = vec![
        ("binary", Arc::new(bytes().collect::<BinaryArray>())),
        ("large_binary", Arc::new(bytes().collect::<LargeBinaryArray>())),
        ("binary_view", Arc::new(bytes().collect::<BinaryViewArray>())),
        ("utf8", Arc::new(plain.iter().copied().collect::<StringArray>())),
        ("large_utf8", Arc::new(plain.iter().copied().collect::<LargeStringArray>())),
        ("utf8_view", Arc::new(plain.iter().copied().collect::<StringViewArray>())),
        ("dictionary", Arc::new(dictionary)),
    ];
    for (kind, array) in kinds {
        let broker = broker(1, &[("t", 1)]).await;
        let producer = producer(&broker, &[]);
        // The array is used for keys and values. It is sliced, because a slice must not shift the values.
        let data = batch(vec![("key", Arc::clone(&array)), ("value", array)]).slice(1, 4);
        let delivery = producer.send_batch("t", data, Columns::default()).await.unwrap();
        let receipts = delivery.wait().await.unwrap();
        assert_eq!(receipts.len(), 1);
        assert_eq!((receipts[0].partition, receipts[0].base_offset, receipts[0].count), (0, 0, 4));
        let rows = read(&broker, "t", 0);
        let expected: Vec<_> = bytes().skip(1).map(|value| value.map(<[u8]>::to_vec)).collect();
        assert_eq!(rows.iter().map(|row| row.value.clone()).collect::<Vec<_>>(), expected, "{kind}");
        assert_eq!(rows.iter().map(|row| row.key.clone()).collect::<Vec<_>>(), expected, "{kind}");
        producer.close(PATIENCE).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fixed_size_binary_headers_partitions_and_timestamps_are_sent() {
    let broker = broker(1, &[("t", 3)]).await;
    let producer = producer(&broker, &[]);
    let fixed = FixedSizeBinaryArray::try_from_iter([[1, 2], [3, 4], [5, 6]].into_iter()).unwrap();
    let fields =
        Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Binary, true)]);
    let entry = StructBuilder::new(fields, vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new())]);
    let mut headers = ListBuilder::new(entry);
    for row in 0..3 {
        for repeat in 0..row {
            headers.values().field_builder::<StringBuilder>(0).unwrap().append_value("h");
            let value: Option<&[u8]> = if repeat == 0 { None } else { Some(b"x") };
            headers.values().field_builder::<BinaryBuilder>(1).unwrap().append_option(value);
            headers.values().append(true);
        }
        headers.append(true);
    }
    let stamps = TimestampMicrosecondArray::from(vec![Some(1_000_000), None, Some(3_000_000)]);
    let data = batch(vec![
        ("v", Arc::new(fixed)),
        ("headers", Arc::new(headers.finish())),
        ("p", Arc::new(Int64Array::from(vec![2, 0, 2]))),
        ("ts", Arc::new(stamps)),
    ]);
    let columns = Columns {
        value: Some("v".to_owned()),
        partition: Some("p".to_owned()),
        timestamp: Some("ts".to_owned()),
        ..Columns::default()
    };
    let receipts = producer.send_batch("t", data, columns).await.unwrap().wait().await.unwrap();
    let reported: Vec<_> = receipts.iter().map(|receipt| (receipt.partition, receipt.count)).collect();
    assert_eq!(reported, [(0, 1), (2, 2)]);
    let rows = read(&broker, "t", 2);
    assert_eq!(rows.iter().map(|row| row.timestamp).collect::<Vec<_>>(), [1000, 3000]);
    assert_eq!(rows[0].value.as_deref(), Some([1, 2].as_slice()));
    assert!(rows[0].headers.is_empty());
    assert_eq!(rows[1].headers, [("h".to_owned(), None), ("h".to_owned(), Some(b"x".to_vec()))]);
    assert!(read(&broker, "t", 0)[0].timestamp > 1_600_000_000_000, "a null timestamp is now");
    producer.close(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keyed_rows_match_partitions_of_single_records() {
    let broker = broker(2, &[("t", 4)]).await;
    let producer = producer(&broker, &[]);
    let count = 60_000;
    let keys: StringArray = (0..count).map(|i| (i % 10 != 9).then(|| format!("key-{}", i % 37))).collect();
    let values = texts(count, 90);
    let data = batch(vec![("key", Arc::new(keys)), ("value", Arc::clone(&values))]);
    let delivery = producer.send_batch("t", data, Columns::default()).await.unwrap();
    let receipts = delivery.wait().await.unwrap();
    assert_eq!(receipts.iter().map(|receipt| receipt.count).sum::<u64>(), count as u64);
    assert_eq!(delivery.len(), count as u64);
    let mut seen = vec![false; count];
    for partition in 0..4 {
        let rows = read(&broker, "t", partition);
        let reported: u64 = receipts.iter().filter(|receipt| receipt.partition == partition).map(|r| r.count).sum();
        assert_eq!(rows.len() as u64, reported);
        let mut last = None;
        for row in rows {
            let number: usize = row.text().parse().unwrap();
            assert!(!std::mem::replace(&mut seen[number], true));
            assert!(last < Some(number), "order within the partition");
            last = Some(number);
            if let Some(key) = row.key {
                assert_eq!(samsarrow_wire::murmur2::partition(&key, 4), partition);
                assert_eq!(key, format!("key-{}", number % 37).into_bytes());
            } else {
                assert_eq!(number % 10, 9);
            }
        }
    }
    assert!(seen.into_iter().all(|seen| seen));
    producer.close(PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_data_than_memory_is_sent_with_every_codec() {
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
        let broker = broker(2, &[("t", 3)]).await;
        let producer = producer(&broker, &[("compression.type", name), ("buffer.memory", "1000000")]);
        let count = 40_000;
        let data = batch(vec![("value", texts(count, 100))]);
        let delivery = producer.send_batch("t", data, Columns::default()).await.unwrap();
        delivery.wait().await.unwrap();
        let mut seen = vec![false; count];
        for partition in 0..3 {
            for row in read(&broker, "t", partition) {
                assert_eq!(row.codec, codec);
                assert!(!std::mem::replace(&mut seen[row.text().parse::<usize>().unwrap()], true));
            }
        }
        assert!(seen.into_iter().all(|seen| seen), "{name}");
        producer.close(PATIENCE).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_row_fails_the_call_before_any_row_is_sent() {
    let broker = broker(1, &[("t", 2)]).await;
    let producer = producer(&broker, &[("max.request.size", "5000")]);
    let mut values: Vec<String> = (0..100).map(|i| i.to_string()).collect();
    values[77] = "x".repeat(6000);
    let data = batch(vec![("value", Arc::new(StringArray::from(values)))]);
    let error = producer.send_batch("t", data, Columns::default()).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.code(), Some(ErrorCode::MESSAGE_TOO_LARGE.code()));
    assert!(text.contains("row 77") && text.contains("6000 bytes") && text.contains("5000"), "{text}");

    let partitions = Int32Array::from(vec![0, 1, 2]);
    let data = batch(vec![("value", texts(3, 1)), ("partition", Arc::new(partitions))]);
    let columns = Columns { partition: Some("partition".to_owned()), ..Columns::default() };
    let text = producer.send_batch("t", data, columns).await.unwrap_err().to_string();
    assert!(text.contains("row 2") && text.contains("no partition 2"), "{text}");

    let data = batch(vec![("value", Arc::new(Int64Array::from(vec![1])))]);
    let text = producer.send_batch("t", data, Columns::default()).await.unwrap_err().to_string();
    assert!(text.contains("value") && text.contains("Int64"), "{text}");
    let data = batch(vec![("other", texts(1, 1))]);
    let text = producer.send_batch("t", data, Columns::default()).await.unwrap_err().to_string();
    assert!(text.contains("value") && text.contains("other"), "{text}");

    producer.close(PATIENCE).await.unwrap();
    assert_eq!((broker.end_offset("t", 0), broker.end_offset("t", 1)), (Some(0), Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_batch_completes_and_unknown_topic_fails() {
    let broker = broker(1, &[("t", 1)]).await;
    let producer = producer(&broker, &[("max.block.ms", "300")]);
    let empty = batch(vec![("value", texts(0, 1))]);
    let delivery = producer.send_batch("t", empty.clone(), Columns::default()).await.unwrap();
    assert!(delivery.is_empty() && delivery.is_done());
    assert_eq!(delivery.wait().await.unwrap(), []);
    assert!(producer.send_batch("nope", empty.clone(), Columns::default()).await.is_err());
    producer.close(PATIENCE).await.unwrap();
    assert!(producer.send_batch("t", empty, Columns::default()).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_and_records_of_one_caller_keep_their_order() {
    let broker = broker(1, &[("t", 1)]).await;
    let producer = producer(&broker, &[]);
    let mut expected = Vec::new();
    for round in 0..20 {
        for i in 0..7 {
            let text = format!("single {round} {i}");
            producer.send(record("t", 0, text.clone())).await.unwrap();
            expected.push(text);
        }
        // Some calls are small and share batches with single records, others fill batches of their own.
        let rows = if round % 3 == 0 { 400 } else { 3 };
        let column: StringArray = (0..rows).map(|i| Some(format!("row {round} {i} {}", "-".repeat(80)))).collect();
        expected.extend(column.iter().flatten().map(str::to_owned));
        producer.send_batch("t", batch(vec![("value", Arc::new(column))]), Columns::default()).await.unwrap();
    }
    producer.close(PATIENCE).await.unwrap();
    assert_eq!(values(&broker, "t", 0), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_survive_broker_restarts_and_smaller_broker_limits() {
    let options = BrokerOptions {
        brokers: 2,
        topics: vec![("t".to_owned(), 2)],
        message_max_bytes: 100_000,
        auto_create_topics: false,
        ..BrokerOptions::default()
    };
    let broker = Arc::new(Broker::start(options).await.unwrap());
    let producer = producer(&broker, &[("buffer.memory", "4000000"), ("retry.backoff.ms", "10")]);
    let chaos = {
        let broker = Arc::clone(&broker);
        tokio::spawn(async move {
            for node in [0, 1, 0] {
                tokio::time::sleep(Duration::from_millis(40)).await;
                broker.stop_node(node).await.unwrap();
                tokio::time::sleep(Duration::from_millis(60)).await;
                broker.start_node(node).await.unwrap();
            }
        })
    };
    let count = 100_000;
    let partitions: Int32Array = (0..count).map(|i| Some((i % 2) as i32)).collect();
    let data = batch(vec![("value", texts(count, 100)), ("partition", Arc::new(partitions))]);
    let columns = Columns { partition: Some("partition".to_owned()), ..Columns::default() };
    let delivery = producer.send_batch("t", data, columns).await.unwrap();
    chaos.await.unwrap();
    let receipts = delivery.wait().await.unwrap();
    let reported: Vec<_> =
        receipts.iter().map(|receipt| (receipt.partition, receipt.base_offset, receipt.count)).collect();
    assert_eq!(reported, [(0, 0, 50_000), (1, 0, 50_000)]);
    for partition in 0..2 {
        let rows = read(&broker, "t", partition);
        assert_eq!(rows.len(), 50_000);
        let in_order = |(i, row): (usize, &crate::produce_common::Row)| {
            row.text().parse::<usize>().unwrap() == 2 * i + partition as usize
        };
        assert!(rows.iter().enumerate().all(in_order));
    }
    producer.close(PATIENCE).await.unwrap();
}

#[test]
fn test_dictionary_has_fewer_values_than_rows() {
    // Precondition of the test above: if all values were distinct, a dictionary index could not be distinguished from a
    // row number.
    let dictionary: DictionaryArray<Int32Type> = [Some("a"), None, Some("a")].into_iter().collect();
    assert_eq!(dictionary.values().as_string::<i32>().len(), 1);
}
