//! AddPartitionsToTxn: the partitions that a transaction is going to write to.
//!
//! 2 may answer PRODUCER_FENCED; 4 and 5 are between brokers, which ask for many transactions at once, also only
//! whether the partitions are there; 5 may answer TRANSACTION_ABORTABLE (KIP-890).

request! {
    AddPartitionsToTxn = 24, versions 0..=5, flexible 3,
    AddPartitionsToTxnRequest => AddPartitionsToTxnResponse
}

messages! {
    /// What is asked.
    struct AddPartitionsToTxnRequest {
        transactions: Vec<AddPartitionsToTxnTransaction> => 4..;
        v3_and_below_transactional_id: String => 0..=3;
        v3_and_below_producer_id: i64 => 0..=3;
        v3_and_below_producer_epoch: i16 => 0..=3;
        v3_and_below_topics: Vec<AddPartitionsToTxnTopic> => 0..=3;
    }

    /// A transaction and its new partitions.
    struct AddPartitionsToTxnTransaction {
        transactional_id: String => 4..;
        producer_id: i64 => 4..;
        producer_epoch: i16 => 4..;
        verify_only: bool => 4..;
        topics: Vec<AddPartitionsToTxnTopic> => 4..;
    }

    /// The partitions of one topic.
    struct AddPartitionsToTxnTopic {
        name: String => 0..;
        partitions: Vec<i32> => 0..;
    }

    /// What is answered.
    struct AddPartitionsToTxnResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 4.., [ignorable];
        results_by_transaction: Vec<AddPartitionsToTxnResult> => 4..;
        results_by_topic_v3_and_below: Vec<AddPartitionsToTxnTopicResult> => 0..=3;
    }

    /// What became of a transaction's partitions.
    struct AddPartitionsToTxnResult {
        transactional_id: String => 4..;
        topic_results: Vec<AddPartitionsToTxnTopicResult> => 4..;
    }

    /// What became of the partitions of one topic.
    struct AddPartitionsToTxnTopicResult {
        name: String => 0..;
        results_by_partition: Vec<AddPartitionsToTxnPartitionResult> => 0..;
    }

    /// What became of one partition.
    struct AddPartitionsToTxnPartitionResult {
        partition_index: i32 => 0..;
        partition_error_code: i16 => 0..;
    }
}
