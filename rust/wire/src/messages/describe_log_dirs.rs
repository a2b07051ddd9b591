//! DescribeLogDirs API: returns the log directories of a broker and the replicas in them (KIP-113).
//!
//! v0 was removed in Kafka 4.0; v3 adds a top-level error; v4 adds the total and usable size of the volume (KIP-827);
//! v5 adds a flag for cordoned directories, which accept no new replicas (KIP-1066).

request! { DescribeLogDirs = 35, versions 0..=5, flexible 2, DescribeLogDirsRequest => DescribeLogDirsResponse }

messages! {
    struct DescribeLogDirsRequest {
        topics: Option<Vec<DescribableLogDirTopic>> => 0..;
    }

    /// The requested partitions of one topic.
    struct DescribableLogDirTopic {
        topic: String => 0..;
        partitions: Vec<i32> => 0..;
    }

    struct DescribeLogDirsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 3.., [ignorable];
        results: Vec<DescribeLogDirsResult> => 0..;
    }

    /// One log directory. A size of −1 is unknown.
    struct DescribeLogDirsResult {
        error_code: i16 => 0..;
        log_dir: String => 0..;
        topics: Vec<DescribeLogDirsTopic> => 0..;
        total_bytes: i64 = -1 => 4.., [ignorable];
        usable_bytes: i64 = -1 => 4.., [ignorable];
        is_cordoned: bool => 5.., [ignorable];
    }

    /// The partitions of one topic that have a replica in the directory.
    struct DescribeLogDirsTopic {
        name: String => 0..;
        partitions: Vec<DescribeLogDirsPartition> => 0..;
    }

    /// The replica of one partition, with its size and lag.
    struct DescribeLogDirsPartition {
        partition_index: i32 => 0..;
        partition_size: i64 => 0..;
        offset_lag: i64 => 0..;
        is_future_key: bool => 0..;
    }
}
