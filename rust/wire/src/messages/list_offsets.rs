//! ListOffsets API: returns offsets by timestamp, and the first and last offsets.
//!
//! v0 returns several offsets and was removed in Kafka 4.0; v2 adds the isolation level (KIP-98); v4 fences by leader
//! epoch (KIP-320); v10 adds a timeout (KIP-1075). These versions add special timestamps: v7 for the record with the
//! maximum timestamp (KIP-734), v8 for the start of the local log (KIP-405), v9 for the end of the tiered log
//! (KIP-1005), v11 for the first offset that is not uploaded yet (KIP-1023). A client must set `replica_id` to -1,
//! because the default 0 is a broker id.

request! { ListOffsets = 2, versions 0..=11, flexible 6, ListOffsetsRequest => ListOffsetsResponse }

messages! {
    struct ListOffsetsRequest {
        replica_id: i32 => 0..;
        isolation_level: i8 => 2..;
        topics: Vec<ListOffsetsTopic> => 0..;
        timeout_ms: i32 => 10.., [ignorable];
    }

    /// The partitions of one topic to look up.
    struct ListOffsetsTopic {
        name: String => 0..;
        partitions: Vec<ListOffsetsPartition> => 0..;
    }

    /// The timestamp to look up, or a negative special timestamp.
    struct ListOffsetsPartition {
        partition_index: i32 => 0..;
        current_leader_epoch: i32 = -1 => 4.., [ignorable];
        timestamp: i64 => 0..;
        max_num_offsets: i32 = 1 => 0..=0;
    }

    struct ListOffsetsResponse {
        throttle_time_ms: i32 => 2.., [ignorable];
        topics: Vec<ListOffsetsTopicResponse> => 0..;
    }

    /// The offsets found in one topic.
    struct ListOffsetsTopicResponse {
        name: String => 0..;
        partitions: Vec<ListOffsetsPartitionResponse> => 0..;
    }

    /// The offset found in one partition, or an error.
    struct ListOffsetsPartitionResponse {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        old_style_offsets: Vec<i64> => 0..=0;
        timestamp: i64 = -1 => 1..;
        offset: i64 = -1 => 1..;
        leader_epoch: i32 = -1 => 4..;
    }
}
