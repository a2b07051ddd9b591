//! ElectLeaders API: elects the preferred replicas as leaders (KIP-183); v1 can also run unclean elections (KIP-460).

request! { ElectLeaders = 43, versions 0..=2, flexible 2, ElectLeadersRequest => ElectLeadersResponse }

messages! {
    struct ElectLeadersRequest {
        election_type: i8 => 1..;
        topic_partitions: Option<Vec<TopicPartitions>> => 0..;
        timeout_ms: i32 = 60000 => 0..;
    }

    /// The partitions of one topic for which leaders are elected.
    struct TopicPartitions {
        topic: String => 0..;
        partitions: Vec<i32> => 0..;
    }

    struct ElectLeadersResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 1.., [ignorable];
        replica_election_results: Vec<ReplicaElectionResult> => 0..;
    }

    /// The results for the partitions of one topic.
    struct ReplicaElectionResult {
        topic: String => 0..;
        partition_result: Vec<PartitionResult> => 0..;
    }

    /// The result of the election for one partition.
    struct PartitionResult {
        partition_id: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
