//! OffsetFetch API: returns a group's committed offsets.
//!
//! v0 reads the offsets from ZooKeeper and was removed in Kafka 4.0; from v2 on, null requests all topics and is the
//! default here; v5 adds the leader epoch (KIP-320); v7 can wait for open transactions (KIP-447); v8 allows several
//! groups (KIP-709); v9 is the first version that supports groups of the consumer protocol (KIP-848); v10 has topic
//! ids.

use super::types::Uuid;

request! { OffsetFetch = 9, versions 0..=10, flexible 6, OffsetFetchRequest => OffsetFetchResponse }

messages! {
    struct OffsetFetchRequest {
        group_id: String => 0..=7;
        topics: Option<Vec<OffsetFetchRequestTopic>> => 0..=7, nullable 2..;
        groups: Vec<OffsetFetchRequestGroup> => 8..;
        require_stable: bool => 7..;
    }

    /// The requested partitions of one topic, up to version 7.
    struct OffsetFetchRequestTopic {
        name: String => 0..=7;
        partition_indexes: Vec<i32> => 0..=7;
    }

    /// The requested offsets of one group.
    struct OffsetFetchRequestGroup {
        group_id: String => 8..;
        member_id: Option<String> => 9.., [ignorable];
        member_epoch: i32 = -1 => 9.., [ignorable];
        topics: Option<Vec<OffsetFetchRequestTopics>> => 8..;
    }

    /// The requested partitions of one topic, from version 8 on.
    struct OffsetFetchRequestTopics {
        name: String => 8..=9, [ignorable];
        topic_id: Uuid => 10.., [ignorable];
        partition_indexes: Vec<i32> => 8..;
    }

    struct OffsetFetchResponse {
        throttle_time_ms: i32 => 3.., [ignorable];
        topics: Vec<OffsetFetchResponseTopic> => 0..=7;
        error_code: i16 => 2..=7, [ignorable];
        groups: Vec<OffsetFetchResponseGroup> => 8..;
    }

    /// The committed offsets in one topic, up to version 7.
    struct OffsetFetchResponseTopic {
        name: String => 0..=7;
        partitions: Vec<OffsetFetchResponsePartition> => 0..=7;
    }

    /// The committed offset of one partition up to version 7, or -1 if the group has committed none.
    struct OffsetFetchResponsePartition {
        partition_index: i32 => 0..=7;
        committed_offset: i64 => 0..=7;
        committed_leader_epoch: i32 = -1 => 5..=7, [ignorable];
        metadata: Option<String> => 0..=7;
        error_code: i16 => 0..=7;
    }

    /// The committed offsets of one group.
    struct OffsetFetchResponseGroup {
        group_id: String => 8..;
        topics: Vec<OffsetFetchResponseTopics> => 8..;
        error_code: i16 => 8..;
    }

    /// The committed offsets in one topic, from version 8 on.
    struct OffsetFetchResponseTopics {
        name: String => 8..=9, [ignorable];
        topic_id: Uuid => 10.., [ignorable];
        partitions: Vec<OffsetFetchResponsePartitions> => 8..;
    }

    /// The committed offset of one partition from version 8 on, or -1 if the group has committed none.
    struct OffsetFetchResponsePartitions {
        partition_index: i32 => 8..;
        committed_offset: i64 => 8..;
        committed_leader_epoch: i32 = -1 => 8.., [ignorable];
        metadata: Option<String> => 8..;
        error_code: i16 => 8..;
    }
}
