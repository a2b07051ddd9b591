//! ListOffsets: offsets by timestamp, or at either end.
//!
//! 0 asks for several offsets and is gone since Kafka 4.0; 2 has the isolation level (KIP-98); 4 fences by leader
//! epoch (KIP-320). Special timestamps come with versions: 7 the record of the highest one (KIP-734), 8 the start of
//! the local log (KIP-405), 9 the end of the tiered log (KIP-1005), 11 the first offset not uploaded yet (KIP-1023).
//! 10 has a timeout (KIP-1075). A client must set `replica_id` to -1: its default is 0, a broker's id.

request! { ListOffsets = 2, versions 0..=11, flexible 6, ListOffsetsRequest => ListOffsetsResponse }

messages! {
    /// What is asked.
    struct ListOffsetsRequest {
        replica_id: i32 => 0..;
        isolation_level: i8 => 2..;
        topics: Vec<ListOffsetsTopic> => 0..;
        timeout_ms: i32 => 10.., [ignorable];
    }

    /// The partitions of one topic.
    struct ListOffsetsTopic {
        name: String => 0..;
        partitions: Vec<ListOffsetsPartition> => 0..;
    }

    /// The timestamp to look for, or a negative number with a meaning.
    struct ListOffsetsPartition {
        partition_index: i32 => 0..;
        current_leader_epoch: i32 = -1 => 4.., [ignorable];
        timestamp: i64 => 0..;
        max_num_offsets: i32 = 1 => 0..=0;
    }

    /// What is answered.
    struct ListOffsetsResponse {
        throttle_time_ms: i32 => 2.., [ignorable];
        topics: Vec<ListOffsetsTopicResponse> => 0..;
    }

    /// The offsets of one topic.
    struct ListOffsetsTopicResponse {
        name: String => 0..;
        partitions: Vec<ListOffsetsPartitionResponse> => 0..;
    }

    /// The offset of one partition.
    struct ListOffsetsPartitionResponse {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        old_style_offsets: Vec<i64> => 0..=0;
        timestamp: i64 = -1 => 1..;
        offset: i64 = -1 => 1..;
        leader_epoch: i32 = -1 => 4..;
    }
}
