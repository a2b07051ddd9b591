//! Committed offsets, in each version of OffsetCommit and OffsetFetch.

use crate::common::*;
use samsarrow_broker::Broker;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use samsarrow_wire::messages::offset_fetch::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use samsarrow_wire::messages::{DeleteTopicsRequest, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest, Uuid};

fn commit(group: &str, topic: &str, id: Uuid, partition: i32, offset: i64, metadata: &str) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition {
        partition_index: partition,
        committed_offset: offset,
        committed_metadata: Some(metadata.to_owned()),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: topic.to_owned(),
        topic_id: id,
        partitions: vec![partition],
        ..Default::default()
    };
    OffsetCommitRequest { group_id: group.to_owned(), topics: vec![topic], ..Default::default() }
}

/// Error code of the group, error code of the partition, offset and metadata of an OffsetFetch response.
type Known = (i16, i16, i64, String);

/// Fetches the offset of one partition, or all offsets if `topic` is `None`. Returns the first partition of the
/// response.
async fn fetch(client: &mut Client, version: i16, group: &str, topic: Option<(&str, Uuid, i32)>) -> Known {
    let mut request = OffsetFetchRequest::default();
    if version >= 8 {
        let topics = topic.map(|(name, topic_id, partition)| {
            let name = name.to_owned();
            vec![OffsetFetchRequestTopics { name, topic_id, partition_indexes: vec![partition], ..Default::default() }]
        });
        request.groups = vec![OffsetFetchRequestGroup { group_id: group.to_owned(), topics, ..Default::default() }];
        let mut response = client.call(version, &request).await;
        let mut group = response.groups.remove(0);
        let partition = group.topics.first_mut().map(|topic| topic.partitions.remove(0)).unwrap_or_default();
        let metadata = partition.metadata.unwrap_or_default();
        return (group.error_code, partition.error_code, partition.committed_offset, metadata);
    }
    request.group_id = group.to_owned();
    request.topics = topic.map(|(name, _, partition)| {
        vec![OffsetFetchRequestTopic {
            name: name.to_owned(),
            partition_indexes: vec![partition],
            ..Default::default()
        }]
    });
    let mut response = client.call(version, &request).await;
    let partition = response.topics.first_mut().map(|topic| topic.partitions.remove(0)).unwrap_or_default();
    (response.error_code, partition.error_code, partition.committed_offset, partition.metadata.unwrap_or_default())
}

async fn coordinator(broker: &Broker, group: &str) -> Client {
    Client::connect(broker, broker.coordinator(group).unwrap().try_into().unwrap()).await
}

async fn topic_id(client: &mut Client) -> Uuid {
    client.call(12, &MetadataRequest { topics: None, ..Default::default() }).await.topics[0].topic_id
}

#[tokio::test]
async fn every_version_commits_and_fetches() {
    let broker = broker(3, &[("t", 2)]).await;
    let mut client = coordinator(&broker, "g").await;
    let id = topic_id(&mut client).await;
    for version in 1..=10 {
        let offset = i64::from(version) + 100;
        let metadata = format!("v{version}");
        let response = client.call(version, &commit("g", "t", id, 1, offset, &metadata)).await;
        assert_eq!(response.topics[0].partitions[0].error_code, 0, "OffsetCommit v{version}");
        assert_eq!(broker.committed_offset("g", "t", 1), Some(offset));
        for fetch_version in 1..=10 {
            let known = fetch(&mut client, fetch_version, "g", Some(("t", id, 1))).await;
            assert_eq!(known, (0, 0, offset, metadata.clone()), "OffsetFetch v{fetch_version}");
            if fetch_version >= 2 {
                let all = fetch(&mut client, fetch_version, "g", None).await;
                assert_eq!(all, (0, 0, offset, metadata.clone()), "all by OffsetFetch v{fetch_version}");
            }
            let none = fetch(&mut client, fetch_version, "g", Some(("t", id, 0))).await;
            assert_eq!(none, (0, 0, -1, String::new()), "nothing by OffsetFetch v{fetch_version}");
        }
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn version_0_has_separate_storage() {
    let broker = broker(3, &[("t", 2)]).await;
    let mut client = coordinator(&broker, "g").await;
    let id = topic_id(&mut client).await;
    let missing = (0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code(), -1, String::new());
    assert_eq!(fetch(&mut client, 0, "g", Some(("t", id, 1))).await, missing);
    client.call(0, &commit("g", "t", id, 1, 7, "lost")).await;
    for version in 1..=10 {
        assert_eq!(fetch(&mut client, version, "g", Some(("t", id, 1))).await, (0, 0, -1, String::new()));
    }
    client.call(8, &commit("g", "t", id, 1, 9, "kept")).await;
    assert_eq!(fetch(&mut client, 0, "g", Some(("t", id, 1))).await, (0, 0, 7, String::new()));
    assert_eq!(fetch(&mut client, 0, "g", Some(("t", id, 0))).await, missing);
    assert_eq!(fetch(&mut client, 0, "h", Some(("t", id, 1))).await, missing);
    assert_eq!(fetch(&mut client, 5, "g", Some(("t", id, 1))).await, (0, 0, 9, "kept".to_owned()));
    broker.shutdown().await;
}

#[tokio::test]
async fn rejects_invalid_commits() {
    let broker = broker(2, &[("t", 1)]).await;
    let mut client = coordinator(&broker, "g").await;
    let code = |response: samsarrow_wire::messages::OffsetCommitResponse| response.topics[0].partitions[0].error_code;
    let long = "x".repeat(4097);
    let response = client.call(8, &commit("g", "t", Uuid::ZERO, 0, 1, &long)).await;
    assert_eq!(code(response), ErrorCode::OFFSET_METADATA_TOO_LARGE.code());
    let response = client.call(8, &commit("g", "t", Uuid::ZERO, 0, 1, &long[..4096])).await;
    assert_eq!(code(response), 0);
    for (topic, partition) in [("t", 1), ("none", 0)] {
        let response = client.call(8, &commit("g", topic, Uuid::ZERO, partition, 1, "")).await;
        assert_eq!(code(response), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
    }
    let response = client.call(10, &commit("g", "t", Uuid([1; 16]), 0, 1, "")).await;
    assert_eq!(code(response), ErrorCode::UNKNOWN_TOPIC_ID.code());
    for (group, expected) in [("g", ErrorCode::UNKNOWN_MEMBER_ID), ("h", ErrorCode::ILLEGAL_GENERATION)] {
        let mut client = coordinator(&broker, group).await;
        let member = OffsetCommitRequest {
            generation_id_or_member_epoch: 3,
            member_id: "m".to_owned(),
            ..commit(group, "t", Uuid::ZERO, 0, 1, "")
        };
        assert_eq!(code(client.call(8, &member).await), expected.code());
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn only_the_coordinator_responds() {
    let broker = broker(2, &[("t", 1)]).await;
    let other = 1 - broker.coordinator("g").unwrap();
    let mut client = Client::connect(&broker, other.try_into().unwrap()).await;
    let id = topic_id(&mut client).await;
    let not_coordinator = ErrorCode::NOT_COORDINATOR.code();
    for version in 1..=10 {
        let response = client.call(version, &commit("g", "t", id, 0, 1, "")).await;
        assert_eq!(response.topics[0].partitions[0].error_code, not_coordinator, "OffsetCommit v{version}");
        let (group, partition, ..) = fetch(&mut client, version, "g", Some(("t", id, 0))).await;
        let codes = if version == 1 { (0, not_coordinator) } else { (not_coordinator, 0) };
        assert_eq!((group, partition), codes, "OffsetFetch v{version}");
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn offsets_survive_coordinator_but_not_topic() {
    let broker = broker(2, &[("t", 1)]).await;
    let node = broker.coordinator("g").unwrap();
    let mut client = coordinator(&broker, "g").await;
    client.call(8, &commit("g", "t", Uuid::ZERO, 0, 42, "kept")).await;
    broker.stop_node(node).await.unwrap();
    assert_eq!(broker.coordinator("g"), Some(1 - node));
    let mut client = coordinator(&broker, "g").await;
    let known = fetch(&mut client, 5, "g", Some(("t", Uuid::ZERO, 0))).await;
    assert_eq!(known, (0, 0, 42, "kept".to_owned()));
    client.call(5, &DeleteTopicsRequest { topic_names: vec!["t".to_owned()], ..Default::default() }).await;
    broker.create_topic("t", 1).unwrap();
    let known = fetch(&mut client, 5, "g", Some(("t", Uuid::ZERO, 0))).await;
    assert_eq!(known, (0, 0, -1, String::new()));
    broker.shutdown().await;
}
