//! Tests that prefetching stays within its memory limit and wastes no data, with compressed records, paused partitions
//! or many partitions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::consume_common::{
    SOON, all, broker, by_partition, complete, consumer, options, prefetched, produce, read, tp,
};
use bytes::Bytes;
use samsarrow_broker::{Broker, BrokerOptions, Fault};
use samsarrow_client::config::ClientKind;
use samsarrow_client::consumer::Consumer;
use samsarrow_client::producer::{Producer, ProducerRecord};
use samsarrow_wire::messages::ApiKey;

/// Writes `count` records of 1,000 equal bytes to each partition, in compressed batches of about 60 records.
async fn compressed(broker: &Broker, partitions: i32, count: usize) {
    let more = [("compression.type", "zstd"), ("batch.size", "60000"), ("linger.ms", "50")];
    let producer = Producer::new(&options(ClientKind::Producer, &broker.bootstrap_servers(), &more)).unwrap();
    for _ in 0..count {
        for partition in 0..partitions {
            let value = Some(Bytes::from_static(&[7; 1000]));
            let (topic, headers) = ("t".into(), Vec::new());
            let partition = Some(partition);
            let record = ProducerRecord { topic, partition, timestamp: None, key: None, value, headers };
            producer.send(record).await.unwrap();
        }
    }
    producer.flush(Some(SOON)).await.unwrap();
    producer.close(SOON).await.unwrap();
}

/// Reads `count` rows and returns their offsets per partition.
async fn offsets(consumer: &Consumer, count: usize) -> BTreeMap<i32, Vec<i64>> {
    let mut received: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
    let mut rows = 0;
    while rows < count {
        let batch = consumer.poll(SOON).await.unwrap();
        assert!(batch.num_rows() > 0, "only {rows} rows");
        rows += batch.num_rows();
        let read = crate::consume_common::rows(&batch).into_iter();
        read.for_each(|(partition, offset, _)| received.entry(partition).or_default().push(offset));
    }
    received
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_records_keep_their_order_with_little_memory() {
    let broker = broker(2, 4).await;
    compressed(&broker, 4, 2000).await;
    // The memory is enough for two batches of one partition, then for about one decompressed batch, then for
    // everything.
    for (memory, records) in [("100000", "500"), ("300000", "100000"), ("64000000", "100000")] {
        let consumer = consumer(&broker, &[("queued.max.bytes", memory), ("max.poll.records", records)]);
        consumer.assign(&all(4)).unwrap();
        assert_eq!(offsets(&consumer, 8000).await, complete(4, 0, 2000), "{memory} bytes");
        consumer.close(SOON).await;
    }
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prefetched_rows_of_a_paused_partition_are_returned_on_resume() {
    let broker = broker(1, 2).await;
    produce(&broker, 2, 0, 200).await;
    let consumer = consumer(&broker, &[("max.poll.records", "10")]);
    consumer.assign(&all(2)).unwrap();
    let mut received = read(&consumer, 10).await;
    prefetched(&broker, &consumer).await;
    broker.fail(ApiKey::Fetch, None, &Fault::DropBefore, None);
    let mut other = 0;
    for _ in 0..4 {
        consumer.pause(&[tp(other)]).unwrap();
        let resumed = read(&consumer, 20).await;
        assert!(resumed.iter().all(|(partition, ..)| *partition != other), "{resumed:?}");
        received.extend(resumed);
        consumer.resume(&[tp(other)]).unwrap();
        other = 1 - other;
    }
    consumer.pause(&all(2)).unwrap();
    assert_eq!(consumer.poll(Duration::from_millis(100)).await.unwrap().num_rows(), 0);
    consumer.resume(&all(2)).unwrap();
    received.extend(read(&consumer, 400 - received.len()).await);
    assert_eq!(by_partition(&received), complete(2, 0, 200));
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_partitions_leave_memory_for_others() {
    let broker = broker(1, 3).await;
    produce(&broker, 3, 0, 2000).await;
    let small = [("queued.max.bytes", "8000"), ("max.partition.fetch.bytes", "4000"), ("max.poll.records", "10")];
    let consumer = consumer(&broker, &small);
    consumer.assign(&all(3)).unwrap();
    let mut received = read(&consumer, 10).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    consumer.pause(&[tp(0), tp(1)]).unwrap();
    let rest = 2000 - received.iter().filter(|(partition, ..)| *partition == 2).count();
    received.extend(read(&consumer, rest).await);
    assert_eq!(by_partition(&received)[&2], (0..2000).collect::<Vec<_>>());
    consumer.resume(&[tp(0), tp(1)]).unwrap();
    received.extend(read(&consumer, 6000 - received.len()).await);
    assert_eq!(by_partition(&received), complete(3, 0, 2000));
    broker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn assignment_of_many_partitions_is_fast() {
    const MANY: i32 = 20_000;
    let topics = vec![("t".to_owned(), MANY)];
    let broker = Broker::start(BrokerOptions { topics, ..BrokerOptions::default() }).await.unwrap();
    let consumer = consumer(&broker, &[]);
    let many = all(MANY);
    // A linear search for each partition would take minutes.
    let start = Instant::now();
    (0..10).for_each(|_| consumer.assign(&many).unwrap());
    consumer.pause(&many).unwrap();
    assert_eq!(consumer.paused().len(), many.len());
    consumer.assign(&many[..many.len() / 2]).unwrap();
    consumer.resume(&many[..many.len() / 2]).unwrap();
    assert!(consumer.pause(&many).is_err());
    assert!(consumer.paused().is_empty());
    consumer.assign(&[]).unwrap();
    assert!(start.elapsed() < 6 * SOON, "{:?}", start.elapsed());
    broker.shutdown().await;
}
