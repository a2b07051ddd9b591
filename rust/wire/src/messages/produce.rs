//! Produce API: appends record batches to partitions.
//!
//! v0-2 were removed in Kafka 4.0 and have the old message formats; v3 is the first version with record batches and
//! transactional ids; v7 allows zstd (KIP-110); v8 returns the rejected records (KIP-467); v10 returns the current
//! leader (KIP-951); v12 adds partitions to transactions implicitly (KIP-890); v13 has topic ids (KIP-516). With acks=0
//! the broker sends no response.

use bytes::Bytes;

use super::types::Uuid;

request! { Produce = 0, versions 0..=13, flexible 9, ProduceRequest => ProduceResponse }

messages! {
    struct ProduceRequest {
        transactional_id: Option<String> => 3..;
        acks: i16 => 0..;
        timeout_ms: i32 => 0..;
        topic_data: Vec<TopicProduceData> => 0..;
    }

    /// The record batches for the partitions of one topic.
    struct TopicProduceData {
        name: String => 0..=12, [ignorable];
        topic_id: Uuid => 13.., [ignorable];
        partition_data: Vec<PartitionProduceData> => 0..;
    }

    /// The record batches of one partition.
    struct PartitionProduceData {
        index: i32 => 0..;
        records: Option<Bytes> => 0..;
    }

    struct ProduceResponse {
        responses: Vec<TopicProduceResponse> => 0..;
        throttle_time_ms: i32 => 1.., [ignorable];
        node_endpoints: Vec<NodeEndpoint> => 10.., tag 0;
    }

    /// The results for the partitions of one topic.
    struct TopicProduceResponse {
        name: String => 0..=12, [ignorable];
        topic_id: Uuid => 13.., [ignorable];
        partition_responses: Vec<PartitionProduceResponse> => 0..;
    }

    /// The result of appending to one partition.
    struct PartitionProduceResponse {
        index: i32 => 0..;
        error_code: i16 => 0..;
        base_offset: i64 => 0..;
        log_append_time_ms: i64 = -1 => 2.., [ignorable];
        log_start_offset: i64 = -1 => 5.., [ignorable];
        record_errors: Vec<BatchIndexAndErrorMessage> => 8.., [ignorable];
        error_message: Option<String> => 8.., [ignorable];
        current_leader: LeaderIdAndEpoch => 10.., tag 0;
    }

    /// A record that caused the rejection of its batch.
    struct BatchIndexAndErrorMessage {
        batch_index: i32 => 8..;
        batch_index_error_message: Option<String> => 8..;
    }

    /// The current leader of a partition and its epoch.
    struct LeaderIdAndEpoch {
        leader_id: i32 = -1 => 10..;
        leader_epoch: i32 = -1 => 10..;
    }

    /// The address of a broker that this response names as a leader.
    struct NodeEndpoint {
        node_id: i32 => 10..;
        host: String => 10..;
        port: i32 => 10..;
        rack: Option<String> => 10..;
    }
}
