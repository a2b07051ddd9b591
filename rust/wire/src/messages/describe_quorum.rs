//! DescribeQuorum API: returns the voters and observers of the metadata quorum, and their progress (KIP-595).
//!
//! v1 adds timestamps (KIP-836); v2 adds directory ids and endpoints (KIP-853).

use super::types::Uuid;

request! { DescribeQuorum = 55, versions 0..=2, flexible 0, DescribeQuorumRequest => DescribeQuorumResponse }

messages! {
    struct DescribeQuorumRequest {
        topics: Vec<TopicRequest> => 0..;
    }

    /// The metadata topic, which is the only valid topic.
    struct TopicRequest {
        topic_name: String => 0..;
        partitions: Vec<PartitionRequest> => 0..;
    }

    /// A partition of the metadata topic, which has only one.
    struct PartitionRequest {
        partition_index: i32 => 0..;
    }

    struct DescribeQuorumResponse {
        error_code: i16 => 0..;
        error_message: Option<String> => 2.., [ignorable];
        topics: Vec<TopicData> => 0..;
        nodes: Vec<Node> => 2.., [ignorable];
    }

    /// The metadata topic, which is the only topic in the response.
    struct TopicData {
        topic_name: String => 0..;
        partitions: Vec<PartitionData> => 0..;
    }

    /// The state of the only partition of the metadata topic.
    struct PartitionData {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 2.., [ignorable];
        leader_id: i32 => 0..;
        leader_epoch: i32 => 0..;
        high_watermark: i64 => 0..;
        current_voters: Vec<ReplicaState> => 0..;
        observers: Vec<ReplicaState> => 0..;
    }

    /// The log end offset of one replica. Unknown fields are −1.
    struct ReplicaState {
        replica_id: i32 => 0..;
        replica_directory_id: Uuid => 2.., [ignorable];
        log_end_offset: i64 => 0..;
        last_fetch_timestamp: i64 = -1 => 1.., [ignorable];
        last_caught_up_timestamp: i64 = -1 => 1.., [ignorable];
    }

    /// A controller and its endpoints.
    struct Node {
        node_id: i32 => 0..;
        listeners: Vec<Listener> => 0..;
    }

    /// An endpoint of a controller.
    struct Listener {
        name: String => 0..;
        host: String => 0..;
        port: u16 => 0..;
    }
}
