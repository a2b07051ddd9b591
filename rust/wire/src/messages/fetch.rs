//! Fetch: record batches of partitions.
//!
//! 0-3 are gone since Kafka 4.0; 4 is the first with record batches and read_committed (KIP-98); 7 has sessions
//! (KIP-227); 9 fences by leader epoch (KIP-320); 10 allows zstd (KIP-110); 11 reads from the closest replica
//! (KIP-392); 12 reports diverging logs (KIP-595); 13 names topics by id (KIP-516); 15 has the replica's state
//! (KIP-903); 16 hints at the new leader (KIP-951); 17 (KIP-853) and 18 (KIP-1166) are for replicas.

use bytes::Bytes;

use super::types::Uuid;

request! { Fetch = 1, versions 0..=18, flexible 12, FetchRequest => FetchResponse }

messages! {
    /// What is asked.
    struct FetchRequest {
        cluster_id: Option<String> => 12.., tag 0, [ignorable];
        replica_id: i32 = -1 => 0..=14;
        replica_state: ReplicaState => 15.., tag 1;
        max_wait_ms: i32 => 0..;
        min_bytes: i32 => 0..;
        max_bytes: i32 = i32::MAX => 3.., [ignorable];
        isolation_level: i8 => 4.., [ignorable];
        session_id: i32 => 7.., [ignorable];
        session_epoch: i32 = -1 => 7.., [ignorable];
        topics: Vec<FetchTopic> => 0..;
        forgotten_topics_data: Vec<ForgottenTopic> => 7..;
        rack_id: String => 11.., [ignorable];
    }

    /// Which replica asks; a client is none.
    struct ReplicaState {
        replica_id: i32 = -1 => 15..;
        replica_epoch: i64 = -1 => 15..;
    }

    /// The partitions of one topic.
    struct FetchTopic {
        topic: String => 0..=12, [ignorable];
        topic_id: Uuid => 13.., [ignorable];
        partitions: Vec<FetchPartition> => 0..;
    }

    /// From where to read, and how much.
    struct FetchPartition {
        partition: i32 => 0..;
        current_leader_epoch: i32 = -1 => 9.., [ignorable];
        fetch_offset: i64 => 0..;
        last_fetched_epoch: i32 = -1 => 12..;
        log_start_offset: i64 = -1 => 5.., [ignorable];
        partition_max_bytes: i32 => 0..;
        replica_directory_id: Uuid => 17.., tag 0, [ignorable];
        high_watermark: i64 = i64::MAX => 18.., tag 1, [ignorable];
    }

    /// Partitions to drop from the session.
    struct ForgottenTopic {
        topic: String => 7..=12, [ignorable];
        topic_id: Uuid => 13.., [ignorable];
        partitions: Vec<i32> => 7..;
    }

    /// What is answered.
    struct FetchResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        error_code: i16 => 7.., [ignorable];
        session_id: i32 => 7..;
        responses: Vec<FetchableTopicResponse> => 0..;
        node_endpoints: Vec<NodeEndpoint> => 16.., tag 0;
    }

    /// What was read of one topic.
    struct FetchableTopicResponse {
        topic: String => 0..=12, [ignorable];
        topic_id: Uuid => 13.., [ignorable];
        partitions: Vec<PartitionData> => 0..;
    }

    /// What was read of one partition.
    struct PartitionData {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        high_watermark: i64 => 0..;
        last_stable_offset: i64 = -1 => 4.., [ignorable];
        log_start_offset: i64 = -1 => 5.., [ignorable];
        diverging_epoch: EpochEndOffset => 12.., tag 0;
        current_leader: LeaderIdAndEpoch => 12.., tag 1;
        snapshot_id: SnapshotId => 12.., tag 2;
        aborted_transactions: Option<Vec<AbortedTransaction>> => 4.., [ignorable];
        preferred_read_replica: i32 = -1 => 11..;
        records: Option<Bytes> => 0..;
    }

    /// Where the reader's log parted from the leader's.
    struct EpochEndOffset {
        epoch: i32 = -1 => 12..;
        end_offset: i64 = -1 => 12..;
    }

    /// The leader now.
    struct LeaderIdAndEpoch {
        leader_id: i32 = -1 => 12..;
        leader_epoch: i32 = -1 => 12..;
    }

    /// The snapshot to read instead.
    struct SnapshotId {
        end_offset: i64 = -1 => 0..;
        epoch: i32 = -1 => 0..;
    }

    /// A producer whose records, from this offset to its abort marker, are void.
    struct AbortedTransaction {
        producer_id: i64 => 4..;
        first_offset: i64 => 4..;
    }

    /// The address of a leader that is named here.
    struct NodeEndpoint {
        node_id: i32 => 16..;
        host: String => 16..;
        port: i32 => 16..;
        rack: Option<String> => 16..;
    }
}
