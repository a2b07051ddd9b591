//! WriteTxnMarkers: a coordinator has the ends of transactions written into their partitions.
//!
//! 0 is gone since Kafka 4.0; 2 says which version of transactions the marker is of (KIP-1228).

request! { WriteTxnMarkers = 27, versions 0..=2, flexible 1, WriteTxnMarkersRequest => WriteTxnMarkersResponse }

messages! {
    /// What is asked.
    struct WriteTxnMarkersRequest {
        markers: Vec<WritableTxnMarker> => 0..;
    }

    /// The end of one transaction: `transaction_result` is true for a commit.
    struct WritableTxnMarker {
        producer_id: i64 => 0..;
        producer_epoch: i16 => 0..;
        transaction_result: bool => 0..;
        topics: Vec<WritableTxnMarkerTopic> => 0..;
        coordinator_epoch: i32 => 0..;
        transaction_version: i8 => 2.., [ignorable];
    }

    /// The partitions of one topic.
    struct WritableTxnMarkerTopic {
        name: String => 0..;
        partition_indexes: Vec<i32> => 0..;
    }

    /// What is answered.
    struct WriteTxnMarkersResponse {
        markers: Vec<WritableTxnMarkerResult> => 0..;
    }

    /// What became of the end of one transaction.
    struct WritableTxnMarkerResult {
        producer_id: i64 => 0..;
        topics: Vec<WritableTxnMarkerTopicResult> => 0..;
    }

    /// The partitions of one topic.
    struct WritableTxnMarkerTopicResult {
        name: String => 0..;
        partitions: Vec<WritableTxnMarkerPartitionResult> => 0..;
    }

    /// What became of it in one partition.
    struct WritableTxnMarkerPartitionResult {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
    }
}
