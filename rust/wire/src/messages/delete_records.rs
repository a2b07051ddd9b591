//! DeleteRecords: the start of partitions is moved, and what is before it deleted (KIP-107).

request! { DeleteRecords = 21, versions 0..=2, flexible 2, DeleteRecordsRequest => DeleteRecordsResponse }

messages! {
    /// What is asked.
    struct DeleteRecordsRequest {
        topics: Vec<DeleteRecordsTopic> => 0..;
        timeout_ms: i32 => 0..;
    }

    /// The partitions of one topic.
    struct DeleteRecordsTopic {
        name: String => 0..;
        partitions: Vec<DeleteRecordsPartition> => 0..;
    }

    /// Where one partition is to start; −1 stands for its high watermark.
    struct DeleteRecordsPartition {
        partition_index: i32 => 0..;
        offset: i64 => 0..;
    }

    /// What is answered.
    struct DeleteRecordsResponse {
        throttle_time_ms: i32 => 0..;
        topics: Vec<DeleteRecordsTopicResult> => 0..;
    }

    /// The partitions of one topic.
    struct DeleteRecordsTopicResult {
        name: String => 0..;
        partitions: Vec<DeleteRecordsPartitionResult> => 0..;
    }

    /// Where one partition starts now.
    struct DeleteRecordsPartitionResult {
        partition_index: i32 => 0..;
        low_watermark: i64 => 0..;
        error_code: i16 => 0..;
    }
}
