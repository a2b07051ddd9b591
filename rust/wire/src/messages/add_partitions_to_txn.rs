//! AddPartitionsToTxn API: adds partitions to a transaction before they are written to.
//!
//! v2 may return PRODUCER_FENCED. Only brokers send v4 and v5, in which one request covers several transactions and can
//! verify partitions without adding them; v5 may return TRANSACTION_ABORTABLE (KIP-890).

request! {
    AddPartitionsToTxn = 24, versions 0..=5, flexible 3,
    AddPartitionsToTxnRequest => AddPartitionsToTxnResponse
}

messages! {
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

    /// The partitions of one topic to add to a transaction.
    struct AddPartitionsToTxnTopic {
        name: String => 0..;
        partitions: Vec<i32> => 0..;
    }

    struct AddPartitionsToTxnResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 4.., [ignorable];
        results_by_transaction: Vec<AddPartitionsToTxnResult> => 4..;
        results_by_topic_v3_and_below: Vec<AddPartitionsToTxnTopicResult> => 0..=3;
    }

    /// The results of adding partitions to one transaction.
    struct AddPartitionsToTxnResult {
        transactional_id: String => 4..;
        topic_results: Vec<AddPartitionsToTxnTopicResult> => 4..;
    }

    /// The results for the partitions of one topic.
    struct AddPartitionsToTxnTopicResult {
        name: String => 0..;
        results_by_partition: Vec<AddPartitionsToTxnPartitionResult> => 0..;
    }

    /// The result of adding one partition.
    struct AddPartitionsToTxnPartitionResult {
        partition_index: i32 => 0..;
        partition_error_code: i16 => 0..;
    }
}
