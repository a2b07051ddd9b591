//! OffsetCommit API: stores a group's offsets.
//!
//! v0 stores the offsets in ZooKeeper; v0 and v1 were removed in Kafka 4.0. v1 adds the member and a timestamp for each
//! offset; v2-4 have a retention time (KIP-211); v6 adds the leader epoch (KIP-320); v7 adds static members (KIP-345);
//! v9 is the first version that supports groups of the consumer protocol (KIP-848); v10 has topic ids.

use super::types::Uuid;

request! { OffsetCommit = 8, versions 0..=10, flexible 8, OffsetCommitRequest => OffsetCommitResponse }

messages! {
    struct OffsetCommitRequest {
        group_id: String => 0..;
        generation_id_or_member_epoch: i32 = -1 => 1.., [ignorable];
        member_id: String => 1.., [ignorable];
        group_instance_id: Option<String> => 7..;
        retention_time_ms: i64 = -1 => 2..=4, [ignorable];
        topics: Vec<OffsetCommitRequestTopic> => 0..;
    }

    /// The offsets to commit in one topic.
    struct OffsetCommitRequestTopic {
        name: String => 0..=9, [ignorable];
        topic_id: Uuid => 10.., [ignorable];
        partitions: Vec<OffsetCommitRequestPartition> => 0..;
    }

    /// The offset to commit for one partition.
    struct OffsetCommitRequestPartition {
        partition_index: i32 => 0..;
        committed_offset: i64 => 0..;
        committed_leader_epoch: i32 = -1 => 6.., [ignorable];
        commit_timestamp: i64 = -1 => 1..=1;
        committed_metadata: Option<String> => 0..;
    }

    struct OffsetCommitResponse {
        throttle_time_ms: i32 => 3.., [ignorable];
        topics: Vec<OffsetCommitResponseTopic> => 0..;
    }

    /// The results for the partitions of one topic.
    struct OffsetCommitResponseTopic {
        name: String => 0..=9, [ignorable];
        topic_id: Uuid => 10.., [ignorable];
        partitions: Vec<OffsetCommitResponsePartition> => 0..;
    }

    /// The result of committing the offset of one partition.
    struct OffsetCommitResponsePartition {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
    }
}
