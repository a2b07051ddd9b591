//! OffsetCommit: stores a group's offsets.
//!
//! 0 stores them in ZooKeeper; 0 and 1 are gone since Kafka 4.0. 1 is of the group's member and has a timestamp of
//! its own; 2-4 say how long the offset is kept (KIP-211); 6 has the leader epoch (KIP-320); 7 static members
//! (KIP-345); 9 is the first for KIP-848 groups; 10 names topics by id.

use super::types::Uuid;

request! { OffsetCommit = 8, versions 0..=10, flexible 8, OffsetCommitRequest => OffsetCommitResponse }

messages! {
    /// What is asked.
    struct OffsetCommitRequest {
        group_id: String => 0..;
        generation_id_or_member_epoch: i32 = -1 => 1.., [ignorable];
        member_id: String => 1.., [ignorable];
        group_instance_id: Option<String> => 7..;
        retention_time_ms: i64 = -1 => 2..=4, [ignorable];
        topics: Vec<OffsetCommitRequestTopic> => 0..;
    }

    /// The partitions of one topic.
    struct OffsetCommitRequestTopic {
        name: String => 0..=9, [ignorable];
        topic_id: Uuid => 10.., [ignorable];
        partitions: Vec<OffsetCommitRequestPartition> => 0..;
    }

    /// The offset of one partition.
    struct OffsetCommitRequestPartition {
        partition_index: i32 => 0..;
        committed_offset: i64 => 0..;
        committed_leader_epoch: i32 = -1 => 6.., [ignorable];
        commit_timestamp: i64 = -1 => 1..=1;
        committed_metadata: Option<String> => 0..;
    }

    /// What is answered.
    struct OffsetCommitResponse {
        throttle_time_ms: i32 => 3.., [ignorable];
        topics: Vec<OffsetCommitResponseTopic> => 0..;
    }

    /// The partitions of one topic.
    struct OffsetCommitResponseTopic {
        name: String => 0..=9, [ignorable];
        topic_id: Uuid => 10.., [ignorable];
        partitions: Vec<OffsetCommitResponsePartition> => 0..;
    }

    /// What became of one offset.
    struct OffsetCommitResponsePartition {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
    }
}
