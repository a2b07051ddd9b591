//! OffsetFetch.

use super::types::Uuid;

request! { OffsetFetch = 9, versions 0..=10, flexible 6, OffsetFetchRequest => OffsetFetchResponse }

messages! {
    /// The request as a whole.
    struct OffsetFetchRequest {
        group_id: String => 0..=7;
        topics: Option<Vec<OffsetFetchRequestTopic>> => 0..=7, nullable 2..;
        groups: Vec<OffsetFetchRequestGroup> => 8..;
        require_stable: bool => 7..;
    }

    /// An offset fetch request topic.
    struct OffsetFetchRequestTopic {
        name: String => 0..=7;
        partition_indexes: Vec<i32> => 0..=7;
    }

    /// An offset fetch request group.
    struct OffsetFetchRequestGroup {
        group_id: String => 8..;
        member_id: Option<String> => 9.., [ignorable];
        member_epoch: i32 = -1 => 9.., [ignorable];
        topics: Option<Vec<OffsetFetchRequestTopics>> => 8..;
    }

    /// An offset fetch request topics.
    struct OffsetFetchRequestTopics {
        name: String => 8..=9, [ignorable];
        topic_id: Uuid => 10.., [ignorable];
        partition_indexes: Vec<i32> => 8..;
    }

    /// The response as a whole.
    struct OffsetFetchResponse {
        throttle_time_ms: i32 => 3.., [ignorable];
        topics: Vec<OffsetFetchResponseTopic> => 0..=7;
        error_code: i16 => 2..=7, [ignorable];
        groups: Vec<OffsetFetchResponseGroup> => 8..;
    }

    /// An offset fetch response topic.
    struct OffsetFetchResponseTopic {
        name: String => 0..=7;
        partitions: Vec<OffsetFetchResponsePartition> => 0..=7;
    }

    /// An offset fetch response partition.
    struct OffsetFetchResponsePartition {
        partition_index: i32 => 0..=7;
        committed_offset: i64 => 0..=7;
        committed_leader_epoch: i32 = -1 => 5..=7, [ignorable];
        metadata: Option<String> => 0..=7;
        error_code: i16 => 0..=7;
    }

    /// An offset fetch response group.
    struct OffsetFetchResponseGroup {
        group_id: String => 8..;
        topics: Vec<OffsetFetchResponseTopics> => 8..;
        error_code: i16 => 8..;
    }

    /// An offset fetch response topics.
    struct OffsetFetchResponseTopics {
        name: String => 8..=9, [ignorable];
        topic_id: Uuid => 10.., [ignorable];
        partitions: Vec<OffsetFetchResponsePartitions> => 8..;
    }

    /// An offset fetch response partitions.
    struct OffsetFetchResponsePartitions {
        partition_index: i32 => 8..;
        committed_offset: i64 => 8..;
        committed_leader_epoch: i32 = -1 => 8.., [ignorable];
        metadata: Option<String> => 8..;
        error_code: i16 => 8..;
    }
}
