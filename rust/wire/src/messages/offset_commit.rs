//! OffsetCommit.

use super::types::Uuid;

request! { OffsetCommit = 8, versions 0..=10, flexible 8, OffsetCommitRequest => OffsetCommitResponse }

messages! {
    /// The request as a whole.
    struct OffsetCommitRequest {
        group_id: String => 0..;
        generation_id_or_member_epoch: i32 = -1 => 1.., [ignorable];
        member_id: String => 1.., [ignorable];
        group_instance_id: Option<String> => 7..;
        retention_time_ms: i64 = -1 => 2..=4, [ignorable];
        topics: Vec<OffsetCommitRequestTopic> => 0..;
    }

    /// An offset commit request topic.
    struct OffsetCommitRequestTopic {
        name: String => 0..=9, [ignorable];
        topic_id: Uuid => 10.., [ignorable];
        partitions: Vec<OffsetCommitRequestPartition> => 0..;
    }

    /// An offset commit request partition.
    struct OffsetCommitRequestPartition {
        partition_index: i32 => 0..;
        committed_offset: i64 => 0..;
        committed_leader_epoch: i32 = -1 => 6.., [ignorable];
        commit_timestamp: i64 = -1 => 1..=1;
        committed_metadata: Option<String> => 0..;
    }

    /// The response as a whole.
    struct OffsetCommitResponse {
        throttle_time_ms: i32 => 3.., [ignorable];
        topics: Vec<OffsetCommitResponseTopic> => 0..;
    }

    /// An offset commit response topic.
    struct OffsetCommitResponseTopic {
        name: String => 0..=9, [ignorable];
        topic_id: Uuid => 10.., [ignorable];
        partitions: Vec<OffsetCommitResponsePartition> => 0..;
    }

    /// An offset commit response partition.
    struct OffsetCommitResponsePartition {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
    }
}
