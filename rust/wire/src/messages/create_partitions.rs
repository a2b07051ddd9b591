//! CreatePartitions API: increases the number of partitions of topics (KIP-195). Brokers may throttle v3 and later
//! (KIP-599).

request! { CreatePartitions = 37, versions 0..=3, flexible 2, CreatePartitionsRequest => CreatePartitionsResponse }

messages! {
    struct CreatePartitionsRequest {
        topics: Vec<CreatePartitionsTopic> => 0..;
        timeout_ms: i32 => 0..;
        validate_only: bool => 0..;
    }

    /// The new number of partitions of one topic.
    struct CreatePartitionsTopic {
        name: String => 0..;
        count: i32 => 0..;
        assignments: Option<Vec<CreatePartitionsAssignment>> => 0..;
    }

    /// The broker ids of the replicas of one new partition.
    struct CreatePartitionsAssignment {
        broker_ids: Vec<i32> => 0..;
    }

    struct CreatePartitionsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<CreatePartitionsTopicResult> => 0..;
    }

    /// The result of adding partitions to one topic.
    struct CreatePartitionsTopicResult {
        name: String => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
