//! DescribeShareGroupOffsets API: returns the start offsets of share groups (KIP-932). v1 adds the lag of the group
//! (KIP-1226).

use super::types::Uuid;

request! {
    DescribeShareGroupOffsets = 90, versions 0..=1, flexible 0,
    DescribeShareGroupOffsetsRequest => DescribeShareGroupOffsetsResponse
}

messages! {
    struct DescribeShareGroupOffsetsRequest {
        groups: Vec<DescribeShareGroupOffsetsRequestGroup> => 0..;
    }

    /// One group and its topics; null topics stand for all topics.
    struct DescribeShareGroupOffsetsRequestGroup {
        group_id: String => 0..;
        topics: Option<Vec<DescribeShareGroupOffsetsRequestTopic>> => 0..;
    }

    /// The requested partitions of one topic.
    struct DescribeShareGroupOffsetsRequestTopic {
        topic_name: String => 0..;
        partitions: Vec<i32> => 0..;
    }

    struct DescribeShareGroupOffsetsResponse {
        throttle_time_ms: i32 => 0..;
        groups: Vec<DescribeShareGroupOffsetsResponseGroup> => 0..;
    }

    /// The start offsets of one group.
    struct DescribeShareGroupOffsetsResponseGroup {
        group_id: String => 0..;
        topics: Vec<DescribeShareGroupOffsetsResponseTopic> => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }

    /// The start offsets of a group in one topic.
    struct DescribeShareGroupOffsetsResponseTopic {
        topic_name: String => 0..;
        topic_id: Uuid => 0..;
        partitions: Vec<DescribeShareGroupOffsetsResponsePartition> => 0..;
    }

    /// The start offset of a group in one partition.
    struct DescribeShareGroupOffsetsResponsePartition {
        partition_index: i32 => 0..;
        start_offset: i64 => 0..;
        leader_epoch: i32 => 0..;
        lag: i64 = -1 => 1.., [ignorable];
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
