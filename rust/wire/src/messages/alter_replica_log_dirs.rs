//! AlterReplicaLogDirs: replicas are moved between the disks of a broker (KIP-113). 0 is gone since Kafka 4.0.

request! {
    AlterReplicaLogDirs = 34, versions 0..=2, flexible 2,
    AlterReplicaLogDirsRequest => AlterReplicaLogDirsResponse
}

messages! {
    /// What is asked.
    struct AlterReplicaLogDirsRequest {
        dirs: Vec<AlterReplicaLogDir> => 0..;
    }

    /// What is to be on one disk.
    struct AlterReplicaLogDir {
        path: String => 0..;
        topics: Vec<AlterReplicaLogDirTopic> => 0..;
    }

    /// The partitions of one topic.
    struct AlterReplicaLogDirTopic {
        name: String => 0..;
        partitions: Vec<i32> => 0..;
    }

    /// What is answered.
    struct AlterReplicaLogDirsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<AlterReplicaLogDirTopicResult> => 0..;
    }

    /// The partitions of one topic.
    struct AlterReplicaLogDirTopicResult {
        topic_name: String => 0..;
        partitions: Vec<AlterReplicaLogDirPartitionResult> => 0..;
    }

    /// What became of one replica.
    struct AlterReplicaLogDirPartitionResult {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
    }
}
