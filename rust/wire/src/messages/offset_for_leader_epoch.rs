//! OffsetForLeaderEpoch API: returns the end offset of a leader epoch (KIP-101).
//!
//! v1 also returns the epoch that the end offset belongs to (KIP-279); v2 fences by leader epoch (KIP-320); v3
//! distinguishes consumers from followers (KIP-392), so that consumers only need the permission to describe the topic
//! instead of the cluster action permission of brokers. v0 and v1 were removed in Kafka 4.0. A client must set
//! `replica_id` to -1, because the default -2 stands for a debugging consumer, which can read past the high watermark.

request! {
    OffsetForLeaderEpoch = 23, versions 0..=4, flexible 4, OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse
}

messages! {
    struct OffsetForLeaderEpochRequest {
        replica_id: i32 = -2 => 3.., [ignorable];
        topics: Vec<OffsetForLeaderTopic> => 0..;
    }

    /// The partitions of one topic to look up.
    struct OffsetForLeaderTopic {
        topic: String => 0..;
        partitions: Vec<OffsetForLeaderPartition> => 0..;
    }

    /// The epoch to look up in one partition.
    struct OffsetForLeaderPartition {
        partition: i32 => 0..;
        current_leader_epoch: i32 = -1 => 2.., [ignorable];
        leader_epoch: i32 => 0..;
    }

    struct OffsetForLeaderEpochResponse {
        throttle_time_ms: i32 => 2.., [ignorable];
        topics: Vec<OffsetForLeaderTopicResult> => 0..;
    }

    /// The end offsets found in one topic.
    struct OffsetForLeaderTopicResult {
        topic: String => 0..;
        partitions: Vec<EpochEndOffset> => 0..;
    }

    /// The largest epoch that is not above the requested epoch, and its end offset.
    struct EpochEndOffset {
        error_code: i16 => 0..;
        partition: i32 => 0..;
        leader_epoch: i32 = -1 => 1.., [ignorable];
        end_offset: i64 = -1 => 0..;
    }
}
