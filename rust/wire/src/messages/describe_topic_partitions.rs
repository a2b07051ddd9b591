//! DescribeTopicPartitions API: returns topics and their partitions, in pages (KIP-966).

use super::types::Uuid;

request! {
    DescribeTopicPartitions = 75, versions 0..=0, flexible 0,
    DescribeTopicPartitionsRequest => DescribeTopicPartitionsResponse
}

messages! {
    struct DescribeTopicPartitionsRequest {
        topics: Vec<TopicRequest> => 0..;
        response_partition_limit: i32 = 2000 => 0..;
        cursor: Option<Cursor> => 0..;
    }

    /// The name of a requested topic.
    struct TopicRequest {
        name: String => 0..;
    }

    /// The topic and partition at which the next page starts.
    struct Cursor {
        topic_name: String => 0..;
        partition_index: i32 => 0..;
    }

    struct DescribeTopicPartitionsResponse {
        throttle_time_ms: i32 => 0..;
        topics: Vec<DescribeTopicPartitionsResponseTopic> => 0..;
        next_cursor: Option<Cursor> => 0..;
    }

    /// A described topic and its partitions.
    struct DescribeTopicPartitionsResponseTopic {
        error_code: i16 => 0..;
        name: Option<String> => 0..;
        topic_id: Uuid => 0..;
        is_internal: bool => 0..;
        partitions: Vec<DescribeTopicPartitionsResponsePartition> => 0..;
        topic_authorized_operations: i32 = -2147483648 => 0..;
    }

    /// A partition with its leader and its replicas.
    struct DescribeTopicPartitionsResponsePartition {
        error_code: i16 => 0..;
        partition_index: i32 => 0..;
        leader_id: i32 => 0..;
        leader_epoch: i32 = -1 => 0..;
        replica_nodes: Vec<i32> => 0..;
        isr_nodes: Vec<i32> => 0..;
        eligible_leader_replicas: Option<Vec<i32>> => 0..;
        last_known_elr: Option<Vec<i32>> => 0..;
        offline_replicas: Vec<i32> => 0..;
    }
}
