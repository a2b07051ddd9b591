//! Control-plane APIs, each in all its versions.

use crate::common::*;
use samsarrow_broker::{Broker, BrokerOptions};
use samsarrow_wire::compression::Codec;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::create_topics::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};
use samsarrow_wire::messages::delete_topics::DeleteTopicState;
use samsarrow_wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use samsarrow_wire::messages::metadata::MetadataRequestTopic;
use samsarrow_wire::messages::{
    ApiKey, ApiVersionsRequest, CreateTopicsRequest, DeleteTopicsRequest, FindCoordinatorRequest,
    InitProducerIdRequest, ListOffsetsRequest, MetadataRequest, MetadataResponse, Uuid,
};

fn requested(name: &str) -> MetadataRequestTopic {
    MetadataRequestTopic { name: Some(name.to_owned()), ..Default::default() }
}

fn names(response: &MetadataResponse) -> Vec<&str> {
    response.topics.iter().filter_map(|topic| topic.name.as_deref()).collect()
}

#[tokio::test]
async fn api_versions() {
    let broker = broker(1, &[]).await;
    let mut client = Client::connect(&broker, 0).await;
    let request = ApiVersionsRequest {
        client_software_name: "samsarrow".to_owned(),
        client_software_version: "0.1.0".to_owned(),
        ..Default::default()
    };
    for version in 0..=5 {
        let response = client.call(version, &request).await;
        assert_eq!(response.error_code, 0, "v{version}");
        let fetch = response.api_keys.iter().find(|api| api.api_key == ApiKey::Fetch.code()).unwrap();
        assert_eq!((fetch.min_version, fetch.max_version), (0, 18));
        let join = response.api_keys.iter().find(|api| api.api_key == ApiKey::JoinGroup.code()).unwrap();
        assert_eq!((join.min_version, join.max_version), (0, 9));
    }
    let nameless = ApiVersionsRequest { client_software_name: "no spaces".to_owned(), ..request };
    assert_eq!(client.call(3, &nameless).await.error_code, ErrorCode::INVALID_REQUEST.code());
    broker.shutdown().await;
}

/// Apache Kafka 4.4.0 returns the same errors (KIP-1242).
#[tokio::test]
async fn api_versions_checks_the_destination() {
    let broker = broker(2, &[]).await;
    let mut client = Client::connect(&broker, 1).await;
    let metadata = client.call(12, &MetadataRequest::default()).await;
    let own = metadata.cluster_id.as_deref();
    let (ok, rejected, invalid) = (ErrorCode::NONE, ErrorCode::REBOOTSTRAP_REQUIRED, ErrorCode::INVALID_REQUEST);
    for (cluster, node_id, expected) in [
        (None, -1, ok),
        (own, 1, ok),
        (own, 0, rejected),
        (Some("other"), 1, rejected),
        (Some(""), 1, rejected),
        (own, -1, invalid),
        (None, 1, invalid),
    ] {
        let request = ApiVersionsRequest {
            client_software_name: "samsarrow".to_owned(),
            client_software_version: "0.1.0".to_owned(),
            cluster_id: cluster.map(str::to_owned),
            node_id,
            ..Default::default()
        };
        let response = client.call(5, &request).await;
        assert_eq!(ErrorCode::from_i16(response.error_code), expected, "{cluster:?} {node_id}");
        assert_eq!(response.api_keys.is_empty(), expected != ok);
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn metadata_in_every_version() {
    let broker = broker(3, &[("a", 4), ("b", 1)]).await;
    let mut client = Client::connect(&broker, 2).await;
    for version in 0..=13 {
        let topics = if version == 0 { Some(Vec::new()) } else { None };
        let response = client.call(version, &MetadataRequest { topics, ..Default::default() }).await;
        assert_eq!(names(&response), ["a", "b"], "v{version}");
        assert_eq!(response.brokers.len(), 3);
        let brokers: Vec<_> = response.brokers.iter().map(|node| format!("{}:{}", node.host, node.port)).collect();
        assert_eq!(brokers.join(","), broker.bootstrap_servers());
        let leaders: Vec<_> = response.topics[0].partitions.iter().map(|partition| partition.leader_id).collect();
        assert_eq!(leaders, [0, 1, 2, 0], "leaders are spread");
        assert_eq!(response.cluster_id.is_some(), version >= 2);
        assert_eq!(response.topics[0].topic_id != Uuid::ZERO, version >= 10);
    }
    let none = client.call(1, &MetadataRequest { topics: Some(Vec::new()), ..Default::default() }).await;
    assert!(none.topics.is_empty(), "from version 1 on an empty list asks for none");
    broker.shutdown().await;
}

#[tokio::test]
async fn metadata_of_unknown_topics() {
    let broker = Broker::start(BrokerOptions { default_partitions: 3, ..Default::default() }).await.unwrap();
    let mut client = Client::connect(&broker, 0).await;
    let request_for = |topic, create| MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: create,
        ..Default::default()
    };
    let response = client.call(9, &request_for(requested("x"), false)).await;
    assert_eq!(response.topics[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
    let response = client.call(9, &request_for(requested("no good"), true)).await;
    assert_eq!(response.topics[0].error_code, ErrorCode::INVALID_TOPIC_EXCEPTION.code());
    let response = client.call(12, &request_for(requested("x"), true)).await;
    assert_eq!((response.topics[0].error_code, response.topics[0].partitions.len()), (0, 3));
    let id = response.topics[0].topic_id;
    let by_id = |id| MetadataRequestTopic { topic_id: id, name: None, ..Default::default() };
    let response = client.call(12, &request_for(by_id(id), false)).await;
    assert_eq!(names(&response), ["x"]);
    let response = client.call(12, &request_for(by_id(Uuid([9; 16])), false)).await;
    assert_eq!(response.topics[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID.code());
    broker.shutdown().await;

    let broker = Broker::start(BrokerOptions { auto_create_topics: false, ..Default::default() }).await.unwrap();
    let mut client = Client::connect(&broker, 0).await;
    let response = client.call(12, &request_for(requested("x"), true)).await;
    assert_eq!(response.topics[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
    broker.shutdown().await;
}

#[tokio::test]
async fn list_offsets_in_every_version() {
    let broker = broker(1, &[("t", 2)]).await;
    let mut client = Client::connect(&broker, 0).await;
    client.produce("t", 0, &batch_of(&[100, 300, 200], 5, NO_PRODUCER)).await;
    client.produce("t", 0, &batch_of(&[250, 300], 5, NO_PRODUCER)).await;
    let request_for = |version, partition, timestamp| {
        let partition = ListOffsetsPartition {
            partition_index: partition,
            timestamp,
            max_num_offsets: if version == 0 { 10 } else { 1 },
            ..Default::default()
        };
        let topic = ListOffsetsTopic { name: "t".to_owned(), partitions: vec![partition], ..Default::default() };
        ListOffsetsRequest { topics: vec![topic], ..Default::default() }
    };
    for (timestamp, offsets) in [(-1, vec![5, 0]), (-2, vec![0])] {
        let response = client.call(0, &request_for(0, 0, timestamp)).await;
        assert_eq!(response.topics[0].partitions[0].old_style_offsets, offsets);
    }
    for version in 1..=11 {
        // The lookup uses the timestamps of records, not those of batches.
        for (requested, offset, timestamp) in [
            (-1, 5, -1),
            (-2, 0, -1),
            (0, 0, 100),
            (100, 0, 100),
            (101, 1, 300),
            (300, 1, 300),
            (301, -1, -1),
            (-3, 1, 300),
        ] {
            let response = client.call(version, &request_for(version, 0, requested)).await;
            let result = &response.topics[0].partitions[0];
            assert_eq!(
                (result.error_code, result.offset, result.timestamp),
                (0, offset, timestamp),
                "v{version} {requested}"
            );
            let epoch = if version >= 4 && offset >= 0 { 0 } else { -1 };
            assert_eq!(result.leader_epoch, epoch);
        }
        let response = client.call(version, &request_for(version, 1, -1)).await;
        assert_eq!(response.topics[0].partitions[0].offset, 0, "an empty partition");
        let response = client.call(version, &request_for(version, 2, -1)).await;
        let code = response.topics[0].partitions[0].error_code;
        assert_eq!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn list_offsets_searches_compressed_batches() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    let mut base = 0;
    for (codec, time) in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd].into_iter().zip((1..).map(|n| n * 1000))
    {
        let batch = compressed(&batch_of(&[time, time + 300, time + 200], 5, NO_PRODUCER), codec);
        assert_eq!(client.produce("t", 0, &batch).await.base_offset, base, "{codec:?}");
        for (requested, offset, timestamp) in
            [(time + 1, base + 1, time + 300), (-3, base + 1, time + 300), (time, base, time)]
        {
            let partition = ListOffsetsPartition { timestamp: requested, ..Default::default() };
            let topic = ListOffsetsTopic { name: "t".to_owned(), partitions: vec![partition], ..Default::default() };
            let response = client.call(7, &ListOffsetsRequest { topics: vec![topic], ..Default::default() }).await;
            let result = &response.topics[0].partitions[0];
            assert_eq!((result.offset, result.timestamp), (offset, timestamp), "{codec:?} {requested}");
        }
        base += 3;
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn find_coordinator_in_every_version() {
    let broker = broker(3, &[]).await;
    let mut client = Client::connect(&broker, 0).await;
    let mut nodes = std::collections::BTreeSet::new();
    for group in ["a", "b", "c", "d"] {
        let expected = broker.coordinator(group).unwrap();
        nodes.insert(expected);
        for version in 0..=6 {
            let mut request = FindCoordinatorRequest::default();
            if version >= 4 {
                request.coordinator_keys = vec![group.to_owned()];
            } else {
                request.key = group.to_owned();
            }
            let response = client.call(version, &request).await;
            let (node, host, port) = match response.coordinators.first() {
                Some(coordinator) => (coordinator.node_id, coordinator.host.clone(), coordinator.port),
                None => (response.node_id, response.host.clone(), response.port),
            };
            assert_eq!(node, expected, "v{version}");
            assert_eq!(format!("{host}:{port}"), address(&broker, node.try_into().unwrap()));
        }
    }
    assert!(nodes.len() > 1, "coordinators are spread");
    let request = FindCoordinatorRequest { key_type: 2, ..Default::default() };
    assert_eq!(client.call(3, &request).await.error_code, ErrorCode::INVALID_REQUEST.code());
    broker.shutdown().await;
}

#[tokio::test]
async fn init_producer_id_in_every_version() {
    let broker = broker(1, &[]).await;
    let mut client = Client::connect(&broker, 0).await;
    let mut ids = std::collections::BTreeSet::new();
    for version in 0..=6 {
        let response =
            client.call(version, &InitProducerIdRequest { transaction_timeout_ms: 1, ..Default::default() }).await;
        assert_eq!((response.error_code, response.producer_epoch), (0, 0));
        assert!(ids.insert(response.producer_id), "each id is given once");
    }
    for version in 0..=6 {
        let request = InitProducerIdRequest {
            transactional_id: Some("x".to_owned()),
            transaction_timeout_ms: 1000,
            ..Default::default()
        };
        let response = client.call(version, &request).await;
        assert_eq!((response.error_code, response.producer_epoch), (0, version));
    }
    broker.shutdown().await;
}

fn topic(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic {
    CreatableTopic { name: name.to_owned(), num_partitions, replication_factor, ..Default::default() }
}

#[tokio::test]
async fn create_and_delete_topics_in_every_version() {
    let broker = broker(2, &[]).await;
    let mut client = Client::connect(&broker, 0).await;
    for version in 0..=7 {
        let name = format!("t{version}");
        let request = CreateTopicsRequest { topics: vec![topic(&name, 3, 2)], ..Default::default() };
        let response = client.call(version, &request).await;
        let result = &response.topics[0];
        assert_eq!((result.name.as_str(), result.error_code), (name.as_str(), 0), "v{version}");
        if version >= 5 {
            assert_eq!((result.num_partitions, result.replication_factor), (3, 2));
        }
        assert_eq!(result.topic_id != Uuid::ZERO, version >= 7);
        let again = client.call(version, &request).await;
        assert_eq!(again.topics[0].error_code, ErrorCode::TOPIC_ALREADY_EXISTS.code());
        assert_eq!(broker.leader(&name, 1), Some(1));
    }
    for version in 0..=6 {
        let name = format!("t{version}");
        let mut request = DeleteTopicsRequest::default();
        if version >= 6 {
            request.topics = vec![DeleteTopicState { name: Some(name.clone()), ..Default::default() }];
        } else {
            request.topic_names = vec![name.clone()];
        }
        let response = client.call(version, &request).await;
        assert_eq!((response.responses[0].name.as_deref(), response.responses[0].error_code), (Some(name.as_str()), 0));
        let again = client.call(version, &request).await;
        assert_eq!(again.responses[0].error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
        assert_eq!(broker.leader(&name, 1), None);
    }
    let state = DeleteTopicState { topic_id: Uuid([3; 16]), ..Default::default() };
    let request = DeleteTopicsRequest { topics: vec![state], ..Default::default() };
    let response = client.call(6, &request).await;
    assert_eq!(response.responses[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID.code());
    broker.shutdown().await;
}

#[tokio::test]
async fn create_topics_rejects_invalid_requests() {
    let broker = broker(2, &[]).await;
    let mut client = Client::connect(&broker, 0).await;
    let config = |name: &str, value: &str| CreatableTopicConfig {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..Default::default()
    };
    let assigned = |replicas: &[(i32, &[i32])]| CreatableTopic {
        assignments: replicas
            .iter()
            .map(|(partition, nodes)| CreatableReplicaAssignment {
                partition_index: *partition,
                broker_ids: nodes.to_vec(),
                ..Default::default()
            })
            .collect(),
        ..topic("x", -1, -1)
    };
    let with = |config| CreatableTopic { configs: vec![config], ..topic("x", 1, 1) };
    let rejected = [
        (topic("", 1, 1), ErrorCode::INVALID_TOPIC_EXCEPTION),
        (topic("..", 1, 1), ErrorCode::INVALID_TOPIC_EXCEPTION),
        (topic(&"x".repeat(250), 1, 1), ErrorCode::INVALID_TOPIC_EXCEPTION),
        (topic("x", 0, 1), ErrorCode::INVALID_PARTITIONS),
        (topic("x", i32::MAX, 1), ErrorCode::INVALID_PARTITIONS),
        (topic("x", 1, 3), ErrorCode::INVALID_REPLICATION_FACTOR),
        (topic("x", 1, 0), ErrorCode::INVALID_REPLICATION_FACTOR),
        (with(config("nonsense", "1")), ErrorCode::INVALID_CONFIG),
        (with(config("message.timestamp.type", "Sometime")), ErrorCode::INVALID_CONFIG),
        (with(config("max.message.bytes", "many")), ErrorCode::INVALID_CONFIG),
        (assigned(&[(0, &[0]), (2, &[1])]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assigned(&[(0, &[0, 0])]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        (assigned(&[(0, &[7])]), ErrorCode::INVALID_REPLICA_ASSIGNMENT),
    ];
    for (topic, code) in rejected {
        let response = client.call(5, &CreateTopicsRequest { topics: vec![topic.clone()], ..Default::default() }).await;
        assert_eq!(response.topics[0].error_code, code.code(), "{topic:?}");
        assert!(response.topics[0].error_message.is_some());
    }
    let twice = CreateTopicsRequest { topics: vec![topic("x", 1, 1), topic("x", 1, 1)], ..Default::default() };
    let response = client.call(5, &twice).await;
    assert!(response.topics.iter().all(|topic| topic.error_code == ErrorCode::INVALID_REQUEST.code()));
    let request = CreateTopicsRequest { topics: vec![topic("x", 2, 1)], validate_only: true, ..Default::default() };
    assert_eq!(client.call(5, &request).await.topics[0].error_code, 0);
    assert_eq!(broker.leader("x", 0), None, "it was only looked at");
    let request = CreateTopicsRequest { topics: vec![assigned(&[(1, &[0]), (0, &[1, 0])])], ..Default::default() };
    assert_eq!(client.call(5, &request).await.topics[0].error_code, 0);
    assert_eq!((broker.leader("x", 0), broker.leader("x", 1)), (Some(1), Some(0)));
    broker.shutdown().await;
}

#[tokio::test]
async fn topic_config_limits_message_size() {
    let broker = broker(1, &[]).await;
    let mut client = Client::connect(&broker, 0).await;
    let config = CreatableTopicConfig {
        name: "max.message.bytes".to_owned(),
        value: Some("200".to_owned()),
        ..Default::default()
    };
    let small = CreatableTopic { configs: vec![config], ..topic("small", 1, 1) };
    client.call(5, &CreateTopicsRequest { topics: vec![small], ..Default::default() }).await;
    assert_eq!(client.produce("small", 0, &batch(1)).await.error_code, 0);
    let code = client.produce("small", 0, &batch(20)).await.error_code;
    assert_eq!(code, ErrorCode::MESSAGE_TOO_LARGE.code());
    broker.shutdown().await;
}
