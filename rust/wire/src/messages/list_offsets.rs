//! ListOffsets.

request! { ListOffsets = 2, versions 0..=11, flexible 6, ListOffsetsRequest => ListOffsetsResponse }

messages! {
    /// The request as a whole.
    struct ListOffsetsRequest {
        replica_id: i32 => 0..;
        isolation_level: i8 => 2..;
        topics: Vec<ListOffsetsTopic> => 0..;
        timeout_ms: i32 => 10.., [ignorable];
    }

    /// A list offsets topic.
    struct ListOffsetsTopic {
        name: String => 0..;
        partitions: Vec<ListOffsetsPartition> => 0..;
    }

    /// A list offsets partition.
    struct ListOffsetsPartition {
        partition_index: i32 => 0..;
        current_leader_epoch: i32 = -1 => 4.., [ignorable];
        timestamp: i64 => 0..;
        max_num_offsets: i32 = 1 => 0..=0;
    }

    /// The response as a whole.
    struct ListOffsetsResponse {
        throttle_time_ms: i32 => 2.., [ignorable];
        topics: Vec<ListOffsetsTopicResponse> => 0..;
    }

    /// A list offsets topic response.
    struct ListOffsetsTopicResponse {
        name: String => 0..;
        partitions: Vec<ListOffsetsPartitionResponse> => 0..;
    }

    /// A list offsets partition response.
    struct ListOffsetsPartitionResponse {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        old_style_offsets: Vec<i64> => 0..=0;
        timestamp: i64 = -1 => 1..;
        offset: i64 = -1 => 1..;
        leader_epoch: i32 = -1 => 4..;
    }
}
