//! WriteTxnMarkers API: a coordinator writes end markers of transactions to their partitions.
//!
//! v0 was removed in Kafka 4.0; v2 adds the transaction version of the marker (KIP-1228).

request! { WriteTxnMarkers = 27, versions 0..=2, flexible 1, WriteTxnMarkersRequest => WriteTxnMarkersResponse }

messages! {
    struct WriteTxnMarkersRequest {
        markers: Vec<WritableTxnMarker> => 0..;
    }

    /// The end marker of one transaction. `transaction_result` is true for a commit.
    struct WritableTxnMarker {
        producer_id: i64 => 0..;
        producer_epoch: i16 => 0..;
        transaction_result: bool => 0..;
        topics: Vec<WritableTxnMarkerTopic> => 0..;
        coordinator_epoch: i32 => 0..;
        transaction_version: i8 => 2.., [ignorable];
    }

    /// The partitions of one topic to which the marker is written.
    struct WritableTxnMarkerTopic {
        name: String => 0..;
        partition_indexes: Vec<i32> => 0..;
    }

    struct WriteTxnMarkersResponse {
        markers: Vec<WritableTxnMarkerResult> => 0..;
    }

    /// The results of writing the markers of one transaction.
    struct WritableTxnMarkerResult {
        producer_id: i64 => 0..;
        topics: Vec<WritableTxnMarkerTopicResult> => 0..;
    }

    /// The results for the partitions of one topic.
    struct WritableTxnMarkerTopicResult {
        name: String => 0..;
        partitions: Vec<WritableTxnMarkerPartitionResult> => 0..;
    }

    /// The result of writing the marker to one partition.
    struct WritableTxnMarkerPartitionResult {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
    }
}
