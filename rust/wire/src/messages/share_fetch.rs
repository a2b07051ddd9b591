//! ShareFetch API: acquires records of a share group's partitions, and acknowledges acquired records (KIP-932).
//!
//! v0 belonged to the early access in Kafka 4.0. v2 adds the acquire mode (KIP-1206) and renewal of locks (KIP-1222).

use bytes::Bytes;

use super::types::Uuid;

request! { ShareFetch = 78, versions 1..=2, flexible 1, ShareFetchRequest => ShareFetchResponse }

messages! {
    struct ShareFetchRequest {
        group_id: Option<String> => 0..;
        member_id: Option<String> => 0..;
        share_session_epoch: i32 => 0..;
        max_wait_ms: i32 => 0..;
        min_bytes: i32 => 0..;
        max_bytes: i32 = i32::MAX => 0..;
        max_records: i32 => 1..;
        batch_size: i32 => 1..;
        share_acquire_mode: i8 => 2.., [ignorable];
        is_renew_ack: bool => 2..;
        topics: Vec<FetchTopic> => 0..;
        forgotten_topics_data: Vec<ForgottenTopic> => 0..;
    }

    /// The partitions of one topic that are added to the session, or whose records are acknowledged.
    struct FetchTopic {
        topic_id: Uuid => 0..;
        partitions: Vec<FetchPartition> => 0..;
    }

    /// A partition and the acknowledgements of its records.
    struct FetchPartition {
        partition_index: i32 => 0..;
        acknowledgement_batches: Vec<AcknowledgementBatch> => 0..;
    }

    /// The acknowledgements of a range of offsets: one type for all offsets, or one type for each offset. The types
    /// are 0 gap, 1 accept, 2 release, 3 reject and 4 renew.
    struct AcknowledgementBatch {
        first_offset: i64 => 0..;
        last_offset: i64 => 0..;
        acknowledge_types: Vec<i8> => 0..;
    }

    /// Partitions of one topic to remove from the share session.
    struct ForgottenTopic {
        topic_id: Uuid => 0..;
        partitions: Vec<i32> => 0..;
    }

    struct ShareFetchResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        acquisition_lock_timeout_ms: i32 => 1..;
        responses: Vec<ShareFetchableTopicResponse> => 0..;
        node_endpoints: Vec<NodeEndpoint> => 0..;
    }

    /// The fetched partitions of one topic.
    struct ShareFetchableTopicResponse {
        topic_id: Uuid => 0..;
        partitions: Vec<PartitionData> => 0..;
    }

    /// The fetched records of one partition, the acquired ranges among them, and the result of the acknowledgements.
    struct PartitionData {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        acknowledge_error_code: i16 => 0..;
        acknowledge_error_message: Option<String> => 0..;
        current_leader: LeaderIdAndEpoch => 0..;
        records: Option<Bytes> => 0.., nullable 0..1;
        acquired_records: Vec<AcquiredRecords> => 0..;
    }

    /// The current leader of a partition and its epoch.
    struct LeaderIdAndEpoch {
        leader_id: i32 => 0..;
        leader_epoch: i32 => 0..;
    }

    /// A range of offsets that the member has acquired, and the number of deliveries including this one.
    struct AcquiredRecords {
        first_offset: i64 => 0..;
        last_offset: i64 => 0..;
        delivery_count: i16 => 0..;
    }

    /// The address of a broker that this response names as a leader.
    struct NodeEndpoint {
        node_id: i32 => 0..;
        host: String => 0..;
        port: i32 => 0..;
        rack: Option<String> => 0..;
    }
}
