//! Produce and Fetch: all versions, and the limits of requests.

use std::time::{Duration, Instant};

use crate::common::*;
use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig};
use samsarrow_wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use samsarrow_wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, FetchRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest, Uuid,
};

async fn topic_id(client: &mut Client, topic: &str) -> Uuid {
    let response = client.call(12, &MetadataRequest { topics: None, ..Default::default() }).await;
    response.topics.iter().find(|batches| batches.name.as_deref() == Some(topic)).unwrap().topic_id
}

#[tokio::test]
async fn every_version_of_produce_and_fetch() {
    let broker = broker(1, &[("t", 2)]).await;
    let mut client = Client::connect(&broker, 0).await;
    let id = topic_id(&mut client, "t").await;
    let batch = batch(3);
    for (round, version) in (0..).zip(3..=13) {
        let mut request = produce_request("t", 1, &batch, 1);
        request.topic_data[0].topic_id = id;
        let response = client.call(version, &request).await;
        let response = &response.responses[0].partition_responses[0];
        assert_eq!((response.error_code, response.base_offset), (0, round * 3), "Produce v{version}");
        assert_eq!(response.log_append_time_ms, -1);
    }
    for version in 4..=18 {
        let mut request = fetch_request("t", &[(0, 0), (1, 4)]);
        request.topics[0].topic_id = id;
        request.isolation_level = i8::from(version % 2 == 0);
        let response = client.call(version, &request).await;
        assert_eq!((response.error_code, response.session_id), (0, 0));
        let topic = &response.responses[0];
        if version >= 13 {
            assert_eq!(topic.topic_id, id);
        } else {
            assert_eq!(topic.topic, "t");
        }
        let empty = &topic.partitions[0];
        assert_eq!((empty.partition_index, empty.error_code, empty.high_watermark), (0, 0, 0), "Fetch v{version}");
        assert_eq!(empty.records, Some(Bytes::new()));
        let full = &topic.partitions[1];
        assert_eq!((full.high_watermark, full.last_stable_offset), (33, 33));
        assert_eq!(full.log_start_offset, if version >= 5 { 0 } else { -1 });
        assert_eq!(full.aborted_transactions, (version % 2 == 0).then(Vec::new));
        assert_eq!(full.preferred_read_replica, -1);
        let batches = headers(full.records.as_ref().unwrap());
        assert_eq!(batches.len(), 10, "from the batch that holds offset 4 on");
        assert_eq!((batches[0], batches[9]), ((3, 0, 5), (30, 0, 32)));
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn rejects_invalid_batches() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    let good = batch(3);
    let mut flipped = good.to_vec();
    flipped[70] ^= 1;
    let mut short_length = good.to_vec();
    short_length[8..12].copy_from_slice(&20_i32.to_be_bytes());
    let mut based = good.to_vec();
    based[7] = 1;
    let two = Bytes::from([&good[..], &good[..]].concat());
    let bad: [(&str, Bytes, ErrorCode); 12] = [
        ("nothing", Bytes::new(), ErrorCode::INVALID_RECORD),
        ("a flipped bit", flipped.into(), ErrorCode::CORRUPT_MESSAGE),
        ("a length below the header's", short_length.into(), ErrorCode::CORRUPT_MESSAGE),
        ("a cut batch", good.slice(..good.len() - 1), ErrorCode::INVALID_RECORD),
        ("two batches", two, ErrorCode::INVALID_RECORD),
        ("a base offset", based.into(), ErrorCode::INVALID_RECORD),
        ("no records", resealed(&good, |batch| batch[36..40].fill(0)), ErrorCode::INVALID_RECORD),
        ("a wrong count", resealed(&good, |batch| batch[39] = 4), ErrorCode::INVALID_RECORD),
        ("a control batch", resealed(&good, |batch| batch[1] |= 0x20), ErrorCode::INVALID_RECORD),
        ("a transaction of nobody", resealed(&good, |batch| batch[1] |= 0x10), ErrorCode::INVALID_RECORD),
        ("an unknown codec", resealed(&good, |batch| batch[1] |= 5), ErrorCode::UNSUPPORTED_COMPRESSION_TYPE),
        ("LogAppendTime", resealed(&good, |batch| batch[1] |= 8), ErrorCode::INVALID_TIMESTAMP),
    ];
    for (case, batch, code) in bad {
        let response = client.produce("t", 0, &batch).await;
        assert_eq!((response.error_code, response.base_offset), (code.code(), -1), "{case}");
    }
    let response = client.produce("t", 0, &batch_of(&[0], 1_100_000, NO_PRODUCER)).await;
    assert_eq!(response.error_code, ErrorCode::MESSAGE_TOO_LARGE.code());
    let response = client.produce("t", 9, &good).await;
    assert_eq!(response.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
    let response = client.produce("none", 0, &good).await;
    assert_eq!(response.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
    let response = client.call(13, &produce_request("t", 0, &good, 1)).await;
    assert_eq!(response.responses[0].partition_responses[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID.code());
    let response = client.call(9, &produce_request("t", 0, &good, 2)).await;
    assert_eq!(response.responses[0].partition_responses[0].error_code, ErrorCode::INVALID_REQUIRED_ACKS.code());
    assert_eq!(broker.end_offset("t", 0), Some(0), "nothing of all that was appended");
    assert_eq!(client.produce("t", 0, &good).await.base_offset, 0);
    broker.shutdown().await;
}

#[tokio::test]
async fn acks_0_has_no_response_and_errors_close() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    client.send(9, &produce_request("t", 0, &batch(2), 0)).await;
    // A request with acks=0 gets no response, so the next response belongs to the next request.
    assert_eq!(client.produce("t", 0, &batch(1)).await.base_offset, 2);
    client.send(9, &produce_request("none", 0, &batch(2), 0)).await;
    assert!(client.is_closed().await);
    broker.shutdown().await;
}

#[tokio::test]
async fn fetch_limits() {
    let broker = broker(1, &[("t", 3)]).await;
    let mut client = Client::connect(&broker, 0).await;
    let big = batch_of(&[0], 1000, NO_PRODUCER);
    for partition in [1, 1, 2, 2] {
        client.produce("t", partition, &big).await;
    }
    let size = big.len();
    let bytes = |response: &samsarrow_wire::messages::FetchResponse| -> Vec<usize> {
        let partitions = response.responses[0].partitions.iter();
        partitions.map(|partition| partition.records.as_ref().unwrap().len()).collect()
    };
    let request_with = |max_bytes: usize, partition_max: usize| {
        let mut request = fetch_request("t", &[(0, 0), (1, 0), (2, 0)]);
        request.max_bytes = max_bytes.try_into().unwrap();
        for partition in &mut request.topics[0].partitions {
            partition.partition_max_bytes = partition_max.try_into().unwrap();
        }
        request
    };
    // KIP-74: the first batch is returned even if it exceeds the limits. Further batches are returned only if they fit.
    assert_eq!(bytes(&client.call(12, &request_with(1, 1)).await), [0, size, 0]);
    assert_eq!(bytes(&client.call(12, &request_with(usize::try_from(i32::MAX).unwrap(), 1)).await), [0, size, 0]);
    assert_eq!(bytes(&client.call(12, &request_with(10 * size, size)).await), [0, size, size]);
    assert_eq!(bytes(&client.call(12, &request_with(3 * size + 5, 2 * size)).await), [0, 2 * size, size]);
    assert_eq!(bytes(&client.call(12, &request_with(10 * size, 10 * size)).await), [0, 2 * size, 2 * size]);
    broker.shutdown().await;
}

#[tokio::test]
async fn fetch_errors() {
    let broker = broker(2, &[("t", 2)]).await;
    let mut client = Client::connect(&broker, 0).await;
    client.produce("t", 0, &batch(3)).await;
    for offset in [-1, 4] {
        let response = client.fetch("t", 0, offset).await;
        assert_eq!(response.error_code, ErrorCode::OFFSET_OUT_OF_RANGE.code());
    }
    assert_eq!(client.fetch("t", 0, 3).await.error_code, 0);
    assert_eq!(client.fetch("none", 0, 0).await.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
    assert_eq!(client.fetch("t", 7, 0).await.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
    let response = client.fetch("t", 1, 0).await;
    assert_eq!(response.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER.code());
    assert_eq!((response.current_leader.leader_id, response.current_leader.leader_epoch), (1, 0));

    let mut request = fetch_request("t", &[(1, 0)]);
    request.topics[0].topic_id = topic_id(&mut client, "t").await;
    let response = client.call(16, &request).await;
    let endpoint = &response.node_endpoints[0];
    assert_eq!(format!("{}:{}", endpoint.host, endpoint.port), address(&broker, 1));
    let response = client.call(13, &fetch_request("t", &[(0, 0)])).await;
    assert_eq!(response.responses[0].partitions[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID.code());

    broker.move_leader("t", 0, 0).unwrap();
    for (epoch, code) in [
        (-1, ErrorCode::NONE),
        (0, ErrorCode::FENCED_LEADER_EPOCH),
        (1, ErrorCode::NONE),
        (2, ErrorCode::UNKNOWN_LEADER_EPOCH),
    ] {
        let mut request = fetch_request("t", &[(0, 0)]);
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        let response = client.call(12, &request).await;
        assert_eq!(response.responses[0].partitions[0].error_code, code.code(), "epoch {epoch}");
    }
    let request = FetchRequest { session_id: 5, session_epoch: 1, ..fetch_request("t", &[(0, 0)]) };
    assert_eq!(client.call(12, &request).await.error_code, ErrorCode::FETCH_SESSION_ID_NOT_FOUND.code());
    broker.shutdown().await;
}

#[tokio::test]
async fn long_poll_waits_and_wakes() {
    let broker = broker(1, &[("t", 2)]).await;
    let (mut reader, mut writer) = (Client::connect(&broker, 0).await, Client::connect(&broker, 0).await);
    let wait = |ms, min_bytes| FetchRequest { max_wait_ms: ms, min_bytes, ..fetch_request("t", &[(0, 0), (1, 0)]) };

    let began = Instant::now();
    let response = reader.call(12, &wait(200, 1)).await;
    assert!(began.elapsed() >= Duration::from_millis(200), "nothing came: it waits to the end");
    assert_eq!(response.responses[0].partitions[1].high_watermark, 0);

    // An append that is smaller than `min_bytes` wakes the long poll but does not complete it.
    let small = batch(1);
    let enough = i32::try_from(2 * small.len()).unwrap();
    reader.send(12, &wait(15_000, enough)).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let began = Instant::now();
    writer.produce("t", 1, &small).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    writer.produce("t", 0, &small).await;
    let response = reader.receive::<FetchRequest>(12).await;
    assert!(began.elapsed() < Duration::from_secs(10), "woken by bytes, not by time");
    let bytes = |at: usize| response.responses[0].partitions[at].records.as_ref().unwrap().len();
    assert_eq!((bytes(0), bytes(1)), (small.len(), small.len()));

    // Deleting the topic completes the long poll.
    let waiting = |offsets: [i64; 2]| {
        let request = fetch_request("t", &[(0, offsets[0]), (1, offsets[1])]);
        FetchRequest { max_wait_ms: 15_000, ..request }
    };
    reader.send(12, &waiting([1, 1])).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    writer.call(5, &DeleteTopicsRequest { topic_names: vec!["t".to_owned()], ..Default::default() }).await;
    let response = reader.receive::<FetchRequest>(12).await;
    let code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code();
    assert!(response.responses[0].partitions.iter().all(|partition| partition.error_code == code));
    broker.shutdown().await;
}

#[tokio::test]
async fn shutdown_ends_long_poll() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut reader = Client::connect(&broker, 0).await;
    reader.send(12, &FetchRequest { max_wait_ms: i32::MAX, ..fetch_request("t", &[(0, 0)]) }).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    tokio::time::timeout(TIMEOUT, broker.shutdown()).await.expect("shutdown waits for nobody");
    assert!(reader.is_closed().await);
}

#[tokio::test]
async fn log_append_time_is_stamped_by_the_broker() {
    let broker = broker(1, &[]).await;
    let mut client = Client::connect(&broker, 0).await;
    let config = CreatableTopicConfig {
        name: "message.timestamp.type".to_owned(),
        value: Some("LogAppendTime".to_owned()),
        ..Default::default()
    };
    let topic = CreatableTopic {
        name: "stamped".to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        configs: vec![config],
        ..Default::default()
    };
    let response = client.call(5, &CreateTopicsRequest { topics: vec![topic], ..Default::default() }).await;
    assert_eq!(response.topics[0].error_code, 0);
    let response = client.produce("stamped", 0, &batch_of(&[5, 6], 3, NO_PRODUCER)).await;
    assert!(response.log_append_time_ms > 1_700_000_000_000);
    let records = client.fetch("stamped", 0, 0).await.records.unwrap();
    assert_eq!(headers(&records).len(), 1, "the checksum was made anew");
    assert_eq!(records[22] & 8, 8);
    let max_timestamp = i64::from_be_bytes(records[35..43].try_into().unwrap());
    assert_eq!(max_timestamp, response.log_append_time_ms);
    // With LogAppendTime all records have the append time.
    for (requested, offset) in [(7, 0), (max_timestamp, 0), (max_timestamp + 1, -1), (-3, 0)] {
        let partition = ListOffsetsPartition { timestamp: requested, ..Default::default() };
        let topic = ListOffsetsTopic { name: "stamped".to_owned(), partitions: vec![partition], ..Default::default() };
        let response = client.call(7, &ListOffsetsRequest { topics: vec![topic], ..Default::default() }).await;
        assert_eq!(response.topics[0].partitions[0].offset, offset, "{requested}");
    }
    broker.shutdown().await;
}

/// Produces a batch with a given base sequence. Returns the error code and the base offset.
async fn sequence(client: &mut Client, producer_id: i64, epoch: i16, sequence: i32, records: usize) -> (i16, i64) {
    let batch = batch_of(&vec![0; records], 3, ProducerFields { producer_id, epoch, sequence });
    let response = client.produce("t", 0, &batch).await;
    (response.error_code, response.base_offset)
}

#[tokio::test]
async fn idempotent_producers_are_checked_by_sequence() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    let gap = (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER.code(), -1);
    for round in 0..6 {
        assert_eq!(sequence(&mut client, 7, 0, round * 2, 2).await, (0, i64::from(round) * 2));
    }
    // Retries of the last five batches are recognized as duplicates and get the original base offset. Older batches are
    // not recognized.
    for round in 1..6 {
        assert_eq!(sequence(&mut client, 7, 0, round * 2, 2).await, (0, i64::from(round) * 2));
    }
    assert_eq!(sequence(&mut client, 7, 0, 0, 2).await, gap);
    assert_eq!(sequence(&mut client, 7, 0, 13, 1).await, gap);
    assert_eq!(sequence(&mut client, 7, 0, 10, 1).await, gap, "the same first sequence, another last one");
    assert_eq!(broker.end_offset("t", 0), Some(12), "repeats were not appended");
    // A new epoch starts at sequence 0 and fences the previous epoch.
    assert_eq!(sequence(&mut client, 7, 1, 12, 1).await, gap);
    assert_eq!(sequence(&mut client, 7, 1, 0, 1).await, (0, 12));
    assert_eq!(sequence(&mut client, 7, 0, 12, 1).await, (ErrorCode::INVALID_PRODUCER_EPOCH.code(), -1));
    // An unknown producer may start at any sequence. Sequences wrap from the maximum to 0, also within a batch.
    assert_eq!(sequence(&mut client, 8, 0, i32::MAX - 1, 1).await, (0, 13));
    assert_eq!(sequence(&mut client, 8, 0, i32::MAX, 2).await, (0, 14));
    assert_eq!(sequence(&mut client, 8, 0, i32::MAX, 2).await, (0, 14));
    assert_eq!(sequence(&mut client, 8, 0, 1, 1).await, (0, 16));
    assert_eq!(sequence(&mut client, 8, 0, -1, 1).await, (ErrorCode::INVALID_RECORD.code(), -1));
    broker.shutdown().await;
}

#[tokio::test]
async fn many_partitions_in_one_request() {
    let broker = broker(1, &[("t", 200)]).await;
    let mut client = Client::connect(&broker, 0).await;
    let batch = batch(1);
    let mut request = produce_request("t", 0, &batch, 1);
    let one = request.topic_data[0].partition_data[0].clone();
    request.topic_data[0].partition_data = (0..200)
        .map(|index| samsarrow_wire::messages::produce::PartitionProduceData { index, ..one.clone() })
        .collect();
    let response = client.call::<ProduceRequest>(9, &request).await;
    assert!(response.responses[0].partition_responses.iter().all(|response| response.error_code == 0));
    let requested: Vec<_> = (0..200).map(|partition| (partition, 0)).collect();
    let response = client.call(12, &fetch_request("t", &requested)).await;
    let partitions = &response.responses[0].partitions;
    assert_eq!(partitions.len(), 200);
    assert!(partitions.iter().all(|partition| partition.records.as_ref().unwrap().len() == batch.len()));
    broker.shutdown().await;
}

#[tokio::test]
async fn acks_0_is_kept_after_immediate_disconnect() {
    let broker = broker(1, &[("t", 1)]).await;
    for _ in 0..100 {
        let mut client = Client::connect(&broker, 0).await;
        client.send(9, &produce_request("t", 0, &batch(1), 0)).await;
        client.send(9, &produce_request("t", 0, &batch(1), 0)).await;
    }
    let began = Instant::now();
    while broker.end_offset("t", 0) != Some(200) && began.elapsed() < TIMEOUT {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(broker.end_offset("t", 0), Some(200));
    broker.shutdown().await;
}
