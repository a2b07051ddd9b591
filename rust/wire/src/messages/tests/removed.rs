//! Byte-exact tests of versions that no other oracle covers, most of them removed in Kafka 4.0.

use super::*;
use crate::messages::{
    alter_replica_log_dirs, describe_configs, describe_log_dirs, fetch, list_offsets, offset_for_leader_epoch, produce,
    write_txn_markers,
};

fn check<M: Tested>(version: i16, message: &M, bytes: &[u8]) {
    assert_eq!(&message.bytes(version)[..], bytes, "v{version}");
    assert_eq!(M::from_bytes_exact(version, &Bytes::copy_from_slice(bytes)).as_ref(), Ok(message), "v{version}");
}

#[test]
fn list_offsets_0_has_several_offsets() {
    use list_offsets::*;
    let partition =
        ListOffsetsPartition { partition_index: 2, timestamp: -1, max_num_offsets: 3, ..Default::default() };
    let topic = ListOffsetsTopic { name: "t".into(), partitions: vec![partition], ..Default::default() };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let bytes = b"\xff\xff\xff\xff\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x03";
    check(0, &request, bytes);
    let partition =
        ListOffsetsPartitionResponse { partition_index: 2, old_style_offsets: vec![9, 0], ..Default::default() };
    let topic = ListOffsetsTopicResponse { name: "t".into(), partitions: vec![partition], ..Default::default() };
    let response = ListOffsetsResponse { topics: vec![topic], ..Default::default() };
    let bytes = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x02\0\0\0\0\0\x02\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\0";
    check(0, &response, bytes);
}

#[test]
fn produce_0_to_2() {
    use produce::*;
    let partition = PartitionProduceData { index: 1, records: Some(Bytes::from_static(b"set")), ..Default::default() };
    let topic = TopicProduceData { name: "t".into(), partition_data: vec![partition], ..Default::default() };
    let request = ProduceRequest { acks: -1, timeout_ms: 5, topic_data: vec![topic], ..Default::default() };
    for version in 0..=2 {
        let bytes = b"\xff\xff\0\0\0\x05\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x01\0\0\0\x03set";
        check(version, &request, bytes);
    }
    let answer = |log_append_time_ms, throttle_time_ms| {
        let partition = PartitionProduceResponse { index: 1, base_offset: 7, log_append_time_ms, ..Default::default() };
        let partition_responses = vec![partition];
        let topic = TopicProduceResponse { name: "t".into(), partition_responses, ..Default::default() };
        ProduceResponse { responses: vec![topic], throttle_time_ms, ..Default::default() }
    };
    let start = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\x07";
    check(0, &answer(-1, 0), start);
    check(1, &answer(-1, 6), &[&start[..], b"\0\0\0\x06"].concat());
    check(2, &answer(8, 6), &[&start[..], b"\0\0\0\0\0\0\0\x08\0\0\0\x06"].concat());
}

#[test]
fn fetch_0_to_3() {
    use fetch::*;
    let request = |max_bytes| {
        let partition = FetchPartition { partition: 1, fetch_offset: 7, partition_max_bytes: 64, ..Default::default() };
        let topic = FetchTopic { topic: "t".into(), partitions: vec![partition], ..Default::default() };
        FetchRequest { max_wait_ms: 5, min_bytes: 1, max_bytes, topics: vec![topic], ..Default::default() }
    };
    let start = b"\xff\xff\xff\xff\0\0\0\x05\0\0\0\x01";
    let rest = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x07\0\0\0\x40";
    for version in 0..=2 {
        check(version, &request(i32::MAX), &[&start[..], rest].concat());
    }
    check(3, &request(256), &[&start[..], b"\0\0\x01\0", rest].concat());
    let answer = |throttle_time_ms| {
        let records = Some(Bytes::from_static(b"set"));
        let partition = PartitionData { partition_index: 1, high_watermark: 9, records, ..Default::default() };
        let topic = FetchableTopicResponse { topic: "t".into(), partitions: vec![partition], ..Default::default() };
        FetchResponse { throttle_time_ms, responses: vec![topic], ..Default::default() }
    };
    let rest = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\0\0\x09\0\0\0\x03set";
    check(0, &answer(0), rest);
    for version in 1..=3 {
        check(version, &answer(6), &[&b"\0\0\0\x06"[..], rest].concat());
    }
}

/// kafka-protocol supports only version 1; version 0 was removed and version 2 is newer.
#[test]
fn write_txn_markers_0_and_2() {
    use write_txn_markers::*;
    let request = |transaction_version| {
        let topic = WritableTxnMarkerTopic { name: "t".into(), partition_indexes: vec![2], ..Default::default() };
        let marker = WritableTxnMarker {
            producer_id: 9,
            producer_epoch: 3,
            transaction_result: true,
            topics: vec![topic],
            coordinator_epoch: 7,
            transaction_version,
            ..Default::default()
        };
        WriteTxnMarkersRequest { markers: vec![marker], ..Default::default() }
    };
    let producer = b"\0\0\0\0\0\0\0\x09\0\x03\x01";
    let rest = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x02\0\0\0\x07";
    check(0, &request(0), &[b"\0\0\0\x01", &producer[..], rest].concat());
    let rest = b"\x02\x02t\x02\0\0\0\x02\0\0\0\0\x07\x02\0\0";
    check(2, &request(2), &[b"\x02", &producer[..], rest].concat());
}

/// Kafka's own brokers never send null here, but librdkafka's mock broker sends null together with an error.
#[test]
fn null_in_error_responses_is_empty() {
    let mut frame = BytesMut::from(&b"\0\x1b\xff\xff\xff\xff"[..]);
    // Null protocol name, leader and member id, and no members.
    frame.extend_from_slice(b"\xff\xff\xff\xff\xff\xff\0\0\0\0");
    let join = JoinGroupResponse::from_bytes_exact(0, &frame.clone().freeze()).unwrap();
    assert_eq!((join.error_code, join.generation_id, &*join.leader, &*join.member_id), (27, -1, "", ""));
    assert_eq!(join.protocol_name.as_deref(), Some(""));
    let sync = SyncGroupResponse::from_bytes_exact(0, &Bytes::from_static(b"\0\x1b\xff\xff\xff\xff")).unwrap();
    assert_eq!((sync.error_code, sync.assignment.len()), (27, 0));

    frame[1] = 0;
    let error = JoinGroupResponse::from_bytes_exact(0, &frame.freeze()).unwrap_err();
    assert_eq!((error.field, error.kind), ("JoinGroupResponse.protocol_name", DecodeErrorKind::Null), "without one");
    assert!(SyncGroupResponse::from_bytes_exact(0, &Bytes::from_static(b"\0\0\xff\xff\xff\xff")).is_err());
}

/// Tests a member without an assignment, for which Kafka 3.7 sends null.
#[test]
fn accepts_null_assignment() {
    use consumer_group_describe::*;
    let member = Member { member_id: "m".into(), ..Default::default() };
    let group = DescribedGroup { group_id: "g".into(), members: vec![member], ..Default::default() };
    let response = ConsumerGroupDescribeResponse { groups: vec![group], ..Default::default() };
    let bytes = response.bytes(0);
    // Find the two empty assignments, each an empty array and its tagged fields. They are the last fields of the member
    // before the member's own tagged fields.
    let at = bytes.windows(5).position(|w| w == [1, 0, 1, 0, 0]).unwrap();
    let mut null = BytesMut::from(&bytes[..]);
    (null[at], null[at + 2]) = (0, 0);
    assert_eq!(ConsumerGroupDescribeResponse::from_bytes_exact(0, &null.freeze()), Ok(response));
}

#[test]
fn offset_for_leader_epoch_0_and_1() {
    use offset_for_leader_epoch::*;
    let partition = OffsetForLeaderPartition { partition: 2, leader_epoch: 5, ..Default::default() };
    let topic = OffsetForLeaderTopic { topic: "t".into(), partitions: vec![partition], ..Default::default() };
    let request = OffsetForLeaderEpochRequest { topics: vec![topic], ..Default::default() };
    for version in 0..=1 {
        check(version, &request, b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x02\0\0\0\x05");
    }
    let answer = |leader_epoch| {
        let partition = EpochEndOffset { partition: 2, leader_epoch, end_offset: 7, ..Default::default() };
        let topic = OffsetForLeaderTopicResult { topic: "t".into(), partitions: vec![partition], ..Default::default() };
        OffsetForLeaderEpochResponse { topics: vec![topic], ..Default::default() }
    };
    let start = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\x02";
    check(0, &answer(-1), &[&start[..], b"\0\0\0\0\0\0\0\x07"].concat());
    check(1, &answer(4), &[&start[..], b"\0\0\0\x04\0\0\0\0\0\0\0\x07"].concat());
}

#[test]
fn describe_configs_0_has_is_default() {
    use describe_configs::*;
    let keys = Some(vec!["k".into()]);
    let resource = DescribeConfigsResource {
        resource_type: 2,
        resource_name: "t".into(),
        configuration_keys: keys,
        ..Default::default()
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
    check(0, &request, b"\0\0\0\x01\x02\0\x01t\0\0\0\x01\0\x01k");
    let config = DescribeConfigsResourceResult {
        name: "k".into(),
        value: Some("v".into()),
        read_only: true,
        is_default: true,
        ..Default::default()
    };
    let result = DescribeConfigsResult {
        resource_type: 2,
        resource_name: "t".into(),
        configs: vec![config],
        ..Default::default()
    };
    let response = DescribeConfigsResponse { throttle_time_ms: 9, results: vec![result], ..Default::default() };
    let bytes = b"\0\0\0\x09\0\0\0\x01\0\0\xff\xff\x02\0\x01t\0\0\0\x01\0\x01k\0\x01v\x01\x01\0";
    check(0, &response, bytes);
}

#[test]
fn log_dirs_0() {
    use alter_replica_log_dirs::*;
    let topic = AlterReplicaLogDirTopic { name: "t".into(), partitions: vec![3], ..Default::default() };
    let dir = AlterReplicaLogDir { path: "/d".into(), topics: vec![topic], ..Default::default() };
    let request = AlterReplicaLogDirsRequest { dirs: vec![dir], ..Default::default() };
    check(0, &request, b"\0\0\0\x01\0\x02/d\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x03");
    let partition = AlterReplicaLogDirPartitionResult { partition_index: 3, error_code: 57, ..Default::default() };
    let topic =
        AlterReplicaLogDirTopicResult { topic_name: "t".into(), partitions: vec![partition], ..Default::default() };
    let response = AlterReplicaLogDirsResponse { results: vec![topic], ..Default::default() };
    check(0, &response, b"\0\0\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x03\0\x39");

    use describe_log_dirs::*;
    check(0, &DescribeLogDirsRequest::default(), b"\xff\xff\xff\xff");
    let partition =
        DescribeLogDirsPartition { partition_index: 3, partition_size: 7, is_future_key: true, ..Default::default() };
    let topic = DescribeLogDirsTopic { name: "t".into(), partitions: vec![partition], ..Default::default() };
    let dir = DescribeLogDirsResult { log_dir: "/d".into(), topics: vec![topic], ..Default::default() };
    let response = DescribeLogDirsResponse { results: vec![dir], ..Default::default() };
    let sizes = b"\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\0\x01";
    let start = b"\0\0\0\0\0\0\0\x01\0\0\0\x02/d\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x03";
    check(0, &response, &[&start[..], sizes].concat());
}
