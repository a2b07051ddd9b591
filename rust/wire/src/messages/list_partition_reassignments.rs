//! ListPartitionReassignments API: returns the reassignments in progress (KIP-455).

request! {
    ListPartitionReassignments = 46, versions 0..=0, flexible 0,
    ListPartitionReassignmentsRequest => ListPartitionReassignmentsResponse
}

messages! {
    struct ListPartitionReassignmentsRequest {
        timeout_ms: i32 = 60000 => 0..;
        topics: Option<Vec<ListPartitionReassignmentsTopics>> => 0..;
    }

    /// The requested partitions of one topic.
    struct ListPartitionReassignmentsTopics {
        name: String => 0..;
        partition_indexes: Vec<i32> => 0..;
    }

    struct ListPartitionReassignmentsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        topics: Vec<OngoingTopicReassignment> => 0..;
    }

    /// The partitions of one topic that are being reassigned.
    struct OngoingTopicReassignment {
        name: String => 0..;
        partitions: Vec<OngoingPartitionReassignment> => 0..;
    }

    /// A partition with a reassignment in progress.
    struct OngoingPartitionReassignment {
        partition_index: i32 => 0..;
        replicas: Vec<i32> => 0..;
        adding_replicas: Vec<i32> => 0..;
        removing_replicas: Vec<i32> => 0..;
    }
}
