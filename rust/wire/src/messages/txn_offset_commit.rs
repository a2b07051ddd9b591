//! TxnOffsetCommit API: stores a group's offsets, which become visible when the transaction commits.
//!
//! v2 adds the leader epoch (KIP-320); v3 adds the group member (KIP-447); v4 may return TRANSACTION_ABORTABLE; v5 adds
//! the group to the transaction implicitly (KIP-890); v6 has topic ids (KIP-1319).

use super::types::Uuid;

request! { TxnOffsetCommit = 28, versions 0..=6, flexible 3, TxnOffsetCommitRequest => TxnOffsetCommitResponse }

messages! {
    struct TxnOffsetCommitRequest {
        transactional_id: String => 0..;
        group_id: String => 0..;
        producer_id: i64 => 0..;
        producer_epoch: i16 => 0..;
        generation_id_or_member_epoch: i32 = -1 => 3..;
        member_id: String => 3..;
        group_instance_id: Option<String> => 3..;
        topics: Vec<TxnOffsetCommitRequestTopic> => 0..;
    }

    /// The offsets to commit in one topic.
    struct TxnOffsetCommitRequestTopic {
        name: String => 0..=5, [ignorable];
        topic_id: Uuid => 6.., [ignorable];
        partitions: Vec<TxnOffsetCommitRequestPartition> => 0..;
    }

    /// The offset to commit for one partition.
    struct TxnOffsetCommitRequestPartition {
        partition_index: i32 => 0..;
        committed_offset: i64 => 0..;
        committed_leader_epoch: i32 = -1 => 2.., [ignorable];
        committed_metadata: Option<String> => 0..;
    }

    struct TxnOffsetCommitResponse {
        throttle_time_ms: i32 => 0..;
        topics: Vec<TxnOffsetCommitResponseTopic> => 0..;
    }

    /// The results for the partitions of one topic.
    struct TxnOffsetCommitResponseTopic {
        name: String => 0..=5, [ignorable];
        topic_id: Uuid => 6.., [ignorable];
        partitions: Vec<TxnOffsetCommitResponsePartition> => 0..;
    }

    /// The result of committing the offset of one partition.
    struct TxnOffsetCommitResponsePartition {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
    }
}
