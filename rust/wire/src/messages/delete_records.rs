//! DeleteRecords API: advances the log start offset of partitions and deletes the records before it (KIP-107).

request! { DeleteRecords = 21, versions 0..=2, flexible 2, DeleteRecordsRequest => DeleteRecordsResponse }

messages! {
    struct DeleteRecordsRequest {
        topics: Vec<DeleteRecordsTopic> => 0..;
        timeout_ms: i32 => 0..;
    }

    /// The partitions of one topic from which records are deleted.
    struct DeleteRecordsTopic {
        name: String => 0..;
        partitions: Vec<DeleteRecordsPartition> => 0..;
    }

    /// The new log start offset of one partition; −1 stands for the partition's high watermark.
    struct DeleteRecordsPartition {
        partition_index: i32 => 0..;
        offset: i64 => 0..;
    }

    struct DeleteRecordsResponse {
        throttle_time_ms: i32 => 0..;
        topics: Vec<DeleteRecordsTopicResult> => 0..;
    }

    /// The results for the partitions of one topic.
    struct DeleteRecordsTopicResult {
        name: String => 0..;
        partitions: Vec<DeleteRecordsPartitionResult> => 0..;
    }

    /// The result for one partition, including its new log start offset.
    struct DeleteRecordsPartitionResult {
        partition_index: i32 => 0..;
        low_watermark: i64 => 0..;
        error_code: i16 => 0..;
    }
}
