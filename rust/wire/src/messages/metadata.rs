//! Metadata API: returns the brokers, and topics with their partitions and leaders.
//!
//! In v0, an empty list of topics requests all topics; in later versions, null requests all topics and is the default
//! here. v4 can disable automatic topic creation; v7 adds leader epochs (KIP-320); v8 adds authorized operations
//! (KIP-430), but v11 removes those of the cluster (KIP-700); v10 adds topic ids, which can be requested from v12 on
//! (KIP-516); v13 adds a top-level error (KIP-1102).

use super::types::Uuid;

request! { Metadata = 3, versions 0..=13, flexible 9, MetadataRequest => MetadataResponse }

messages! {
    struct MetadataRequest {
        topics: Option<Vec<MetadataRequestTopic>> => 0.., nullable 1..;
        allow_auto_topic_creation: bool = true => 4..;
        include_cluster_authorized_operations: bool => 8..=10;
        include_topic_authorized_operations: bool => 8..;
    }

    /// A requested topic, given by name or by id.
    struct MetadataRequestTopic {
        topic_id: Uuid => 10.., [ignorable];
        name: Option<String> => 0.., nullable 10..;
    }

    struct MetadataResponse {
        throttle_time_ms: i32 => 3.., [ignorable];
        brokers: Vec<MetadataResponseBroker> => 0..;
        cluster_id: Option<String> => 2.., [ignorable];
        controller_id: i32 = -1 => 1.., [ignorable];
        topics: Vec<MetadataResponseTopic> => 0..;
        cluster_authorized_operations: i32 = -2147483648 => 8..=10;
        error_code: i16 => 13.., [ignorable];
    }

    /// A broker and its address.
    struct MetadataResponseBroker {
        node_id: i32 => 0..;
        host: String => 0..;
        port: i32 => 0..;
        rack: Option<String> => 1.., [ignorable];
    }

    /// A topic and its partitions.
    struct MetadataResponseTopic {
        error_code: i16 => 0..;
        name: Option<String> => 0.., nullable 12..;
        topic_id: Uuid => 10.., [ignorable];
        is_internal: bool => 1.., [ignorable];
        partitions: Vec<MetadataResponsePartition> => 0..;
        topic_authorized_operations: i32 = -2147483648 => 8..;
    }

    /// A partition with its leader and its replicas.
    struct MetadataResponsePartition {
        error_code: i16 => 0..;
        partition_index: i32 => 0..;
        leader_id: i32 => 0..;
        leader_epoch: i32 = -1 => 7.., [ignorable];
        replica_nodes: Vec<i32> => 0..;
        isr_nodes: Vec<i32> => 0..;
        offline_replicas: Vec<i32> => 5.., [ignorable];
    }
}
