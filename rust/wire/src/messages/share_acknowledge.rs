//! ShareAcknowledge API: acknowledges records that were acquired by ShareFetch, and closes share sessions (KIP-932).
//!
//! v0 belonged to the early access in Kafka 4.0. v2 adds renewal of locks (KIP-1222).

use super::share_fetch::{AcknowledgementBatch, LeaderIdAndEpoch, NodeEndpoint};
use super::types::Uuid;

request! { ShareAcknowledge = 79, versions 1..=2, flexible 1, ShareAcknowledgeRequest => ShareAcknowledgeResponse }

messages! {
    struct ShareAcknowledgeRequest {
        group_id: Option<String> => 0..;
        member_id: Option<String> => 0..;
        share_session_epoch: i32 => 0..;
        is_renew_ack: bool => 2..;
        topics: Vec<AcknowledgeTopic> => 0..;
    }

    /// The partitions of one topic whose records are acknowledged.
    struct AcknowledgeTopic {
        topic_id: Uuid => 0..;
        partitions: Vec<AcknowledgePartition> => 0..;
    }

    /// A partition and the acknowledgements of its records.
    struct AcknowledgePartition {
        partition_index: i32 => 0..;
        acknowledgement_batches: Vec<AcknowledgementBatch> => 0..;
    }

    struct ShareAcknowledgeResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        acquisition_lock_timeout_ms: i32 => 2.., [ignorable];
        responses: Vec<ShareAcknowledgeTopicResponse> => 0..;
        node_endpoints: Vec<NodeEndpoint> => 0..;
    }

    /// The results for the partitions of one topic.
    struct ShareAcknowledgeTopicResponse {
        topic_id: Uuid => 0..;
        partitions: Vec<PartitionData> => 0..;
    }

    /// The result of all acknowledgements of one partition: all are applied or none.
    struct PartitionData {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        current_leader: LeaderIdAndEpoch => 0..;
    }
}
