//! AlterPartitionReassignments API: starts and cancels reassignments of replicas (KIP-455).
//!
//! v1 can reject changes of the replication factor (KIP-860).

request! {
    AlterPartitionReassignments = 45, versions 0..=1, flexible 0,
    AlterPartitionReassignmentsRequest => AlterPartitionReassignmentsResponse
}

messages! {
    struct AlterPartitionReassignmentsRequest {
        timeout_ms: i32 = 60000 => 0..;
        allow_replication_factor_change: bool = true => 1..;
        topics: Vec<ReassignableTopic> => 0..;
    }

    /// The partitions of one topic to reassign.
    struct ReassignableTopic {
        name: String => 0..;
        partitions: Vec<ReassignablePartition> => 0..;
    }

    /// The target replicas of one partition. Null cancels the partition's reassignment.
    struct ReassignablePartition {
        partition_index: i32 => 0..;
        replicas: Option<Vec<i32>> => 0..;
    }

    struct AlterPartitionReassignmentsResponse {
        throttle_time_ms: i32 => 0..;
        allow_replication_factor_change: bool = true => 1.., [ignorable];
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        responses: Vec<ReassignableTopicResponse> => 0..;
    }

    /// The results for the partitions of one topic.
    struct ReassignableTopicResponse {
        name: String => 0..;
        partitions: Vec<ReassignablePartitionResponse> => 0..;
    }

    /// The result of starting or cancelling the reassignment of one partition.
    struct ReassignablePartitionResponse {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
