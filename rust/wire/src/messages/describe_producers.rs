//! DescribeProducers API: returns the active producers of partitions, and the start offsets of their transactions
//! (KIP-664).

request! { DescribeProducers = 61, versions 0..=0, flexible 0, DescribeProducersRequest => DescribeProducersResponse }

messages! {
    struct DescribeProducersRequest {
        topics: Vec<TopicRequest> => 0..;
    }

    /// The requested partitions of one topic.
    struct TopicRequest {
        name: String => 0..;
        partition_indexes: Vec<i32> => 0..;
    }

    struct DescribeProducersResponse {
        throttle_time_ms: i32 => 0..;
        topics: Vec<TopicResponse> => 0..;
    }

    /// The described partitions of one topic.
    struct TopicResponse {
        name: String => 0..;
        partitions: Vec<PartitionResponse> => 0..;
    }

    /// The producers of one partition.
    struct PartitionResponse {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        active_producers: Vec<ProducerState> => 0..;
    }

    /// An active producer. Optional fields without a value are −1.
    struct ProducerState {
        producer_id: i64 => 0..;
        producer_epoch: i32 => 0..;
        last_sequence: i32 = -1 => 0..;
        last_timestamp: i64 = -1 => 0..;
        coordinator_epoch: i32 => 0..;
        current_txn_start_offset: i64 = -1 => 0..;
    }
}
