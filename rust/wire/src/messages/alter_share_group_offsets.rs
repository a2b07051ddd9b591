//! AlterShareGroupOffsets API: sets the start offsets of a share group (KIP-932).

use super::types::Uuid;

request! {
    AlterShareGroupOffsets = 91, versions 0..=0, flexible 0,
    AlterShareGroupOffsetsRequest => AlterShareGroupOffsetsResponse
}

messages! {
    struct AlterShareGroupOffsetsRequest {
        group_id: String => 0..;
        topics: Vec<AlterShareGroupOffsetsRequestTopic> => 0..;
    }

    /// The new start offsets for partitions of one topic.
    struct AlterShareGroupOffsetsRequestTopic {
        topic_name: String => 0..;
        partitions: Vec<AlterShareGroupOffsetsRequestPartition> => 0..;
    }

    /// The new start offset of one partition.
    struct AlterShareGroupOffsetsRequestPartition {
        partition_index: i32 => 0..;
        start_offset: i64 => 0..;
    }

    struct AlterShareGroupOffsetsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        responses: Vec<AlterShareGroupOffsetsResponseTopic> => 0..;
    }

    /// The results for the partitions of one topic.
    struct AlterShareGroupOffsetsResponseTopic {
        topic_name: String => 0..;
        topic_id: Uuid => 0..;
        partitions: Vec<AlterShareGroupOffsetsResponsePartition> => 0..;
    }

    /// The result of setting the start offset of one partition.
    struct AlterShareGroupOffsetsResponsePartition {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
