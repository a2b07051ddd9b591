//! OffsetDelete API: deletes committed offsets of partitions (KIP-496).

request! { OffsetDelete = 47, versions 0..=0, flexible 99, OffsetDeleteRequest => OffsetDeleteResponse }

messages! {
    struct OffsetDeleteRequest {
        group_id: String => 0..;
        topics: Vec<OffsetDeleteRequestTopic> => 0..;
    }

    /// A topic with offsets to delete.
    struct OffsetDeleteRequestTopic {
        name: String => 0..;
        partitions: Vec<OffsetDeleteRequestPartition> => 0..;
    }

    /// A partition whose offset is to be deleted.
    struct OffsetDeleteRequestPartition {
        partition_index: i32 => 0..;
    }

    struct OffsetDeleteResponse {
        error_code: i16 => 0..;
        throttle_time_ms: i32 => 0.., [ignorable];
        topics: Vec<OffsetDeleteResponseTopic> => 0..;
    }

    /// The results for the partitions of one topic.
    struct OffsetDeleteResponseTopic {
        name: String => 0..;
        partitions: Vec<OffsetDeleteResponsePartition> => 0..;
    }

    /// The result of deleting the offset of one partition.
    struct OffsetDeleteResponsePartition {
        partition_index: i32 => 0..;
        error_code: i16 => 0..;
    }
}
