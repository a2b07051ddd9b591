//! Produce.

use bytes::Bytes;

use super::types::Uuid;

request! { Produce = 0, versions 0..=13, flexible 9, ProduceRequest => ProduceResponse }

messages! {
    /// The request as a whole.
    struct ProduceRequest {
        transactional_id: Option<String> => 3..;
        acks: i16 => 0..;
        timeout_ms: i32 => 0..;
        topic_data: Vec<TopicProduceData> => 0..;
    }

    /// A topic produce data.
    struct TopicProduceData {
        name: String => 0..=12, [ignorable];
        topic_id: Uuid => 13.., [ignorable];
        partition_data: Vec<PartitionProduceData> => 0..;
    }

    /// A partition produce data.
    struct PartitionProduceData {
        index: i32 => 0..;
        records: Option<Bytes> => 0..;
    }

    /// The response as a whole.
    struct ProduceResponse {
        responses: Vec<TopicProduceResponse> => 0..;
        throttle_time_ms: i32 => 1.., [ignorable];
        node_endpoints: Vec<NodeEndpoint> => 10.., tag 0;
    }

    /// A topic produce response.
    struct TopicProduceResponse {
        name: String => 0..=12, [ignorable];
        topic_id: Uuid => 13.., [ignorable];
        partition_responses: Vec<PartitionProduceResponse> => 0..;
    }

    /// A partition produce response.
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

    /// A batch index and error message.
    struct BatchIndexAndErrorMessage {
        batch_index: i32 => 8..;
        batch_index_error_message: Option<String> => 8..;
    }

    /// A leader id and epoch.
    struct LeaderIdAndEpoch {
        leader_id: i32 = -1 => 10..;
        leader_epoch: i32 = -1 => 10..;
    }

    /// A node endpoint.
    struct NodeEndpoint {
        node_id: i32 => 10..;
        host: String => 10..;
        port: i32 => 10..;
        rack: Option<String> => 10..;
    }
}
