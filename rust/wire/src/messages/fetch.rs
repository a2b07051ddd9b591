//! Fetch API: returns record batches of partitions.
//!
//! v0-3 were removed in Kafka 4.0; v4 is the first version with record batches and read_committed (KIP-98); v7 adds
//! sessions (KIP-227); v9 fences by leader epoch (KIP-320); v10 allows zstd (KIP-110); v11 can return a preferred read
//! replica (KIP-392); v12 reports diverging epochs (KIP-595); v13 has topic ids instead of names (KIP-516); v15 adds
//! the replica's state (KIP-903); v16 returns the current leader (KIP-951); v17 (KIP-853) and v18 (KIP-1166) are for
//! replicas.

use bytes::Bytes;

use super::types::Uuid;

request! { Fetch = 1, versions 0..=18, flexible 12, FetchRequest => FetchResponse }

messages! {
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

    /// The id and epoch of the replica that fetches; −1 for consumers.
    struct ReplicaState {
        replica_id: i32 = -1 => 15..;
        replica_epoch: i64 = -1 => 15..;
    }

    /// The partitions of one topic to fetch.
    struct FetchTopic {
        topic: String => 0..=12, [ignorable];
        topic_id: Uuid => 13.., [ignorable];
        partitions: Vec<FetchPartition> => 0..;
    }

    /// The fetch offset and the maximum bytes of one partition.
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

    /// Partitions of one topic to remove from the fetch session.
    struct ForgottenTopic {
        topic: String => 7..=12, [ignorable];
        topic_id: Uuid => 13.., [ignorable];
        partitions: Vec<i32> => 7..;
    }

    struct FetchResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        error_code: i16 => 7.., [ignorable];
        session_id: i32 => 7..;
        responses: Vec<FetchableTopicResponse> => 0..;
        node_endpoints: Vec<NodeEndpoint> => 16.., tag 0;
    }

    /// The fetched partitions of one topic.
    struct FetchableTopicResponse {
        topic: String => 0..=12, [ignorable];
        topic_id: Uuid => 13.., [ignorable];
        partitions: Vec<PartitionData> => 0..;
    }

    /// The fetched records of one partition.
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

    /// The epoch and end offset at which the reader's log diverges from the leader's.
    struct EpochEndOffset {
        epoch: i32 = -1 => 12..;
        end_offset: i64 = -1 => 12..;
    }

    /// The current leader of a partition and its epoch.
    struct LeaderIdAndEpoch {
        leader_id: i32 = -1 => 12..;
        leader_epoch: i32 = -1 => 12..;
    }

    /// The snapshot that the reader must fetch instead of records.
    struct SnapshotId {
        end_offset: i64 = -1 => 0..;
        epoch: i32 = -1 => 0..;
    }

    /// An aborted transaction: its producer id and first offset. The producer's records from this offset up to the
    /// abort marker are not committed.
    struct AbortedTransaction {
        producer_id: i64 => 4..;
        first_offset: i64 => 4..;
    }

    /// The address of a broker that this response names as a leader.
    struct NodeEndpoint {
        node_id: i32 => 16..;
        host: String => 16..;
        port: i32 => 16..;
        rack: Option<String> => 16..;
    }
}
