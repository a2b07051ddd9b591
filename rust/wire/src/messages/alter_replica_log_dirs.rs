//! AlterReplicaLogDirs API: moves replicas between the log directories of a broker (KIP-113). v0 was removed in Kafka
//! 4.0.

request! {
    AlterReplicaLogDirs = 34, versions 0..=2, flexible 2,
    AlterReplicaLogDirsRequest => AlterReplicaLogDirsResponse
}

messages! {
    struct AlterReplicaLogDirsRequest {
        dirs: Vec<AlterReplicaLogDir> => 0..;
    }

    /// The partitions to move to one log directory.
    struct AlterReplicaLogDir {
        path: String => 0..;
        topics: Vec<AlterReplicaLogDirTopic> => 0..;
    }

    /// The partitions of one topic to move.
    struct AlterReplicaLogDirTopic {
        name: String => 0..;
        partitions: Vec<i32> => 0..;
    }

    struct AlterReplicaLogDirsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<AlterReplicaLogDirTopicResult> => 0..;
    }

    /// The results for the partitions of one topic.
    struct AlterReplicaLogDirTopicResult {
        topic_name: String => 0..;
        partitions: Vec<AlterReplicaLogDirPartitionResult> => 0..;
    }

    /// The result of moving the replica of one partition.
    struct AlterReplicaLogDirPartitionResult {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
    }
}
