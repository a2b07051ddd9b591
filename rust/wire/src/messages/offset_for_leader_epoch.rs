//! OffsetForLeaderEpoch: where the records of a leader's epoch end in its log (KIP-101).
//!
//! 1 also names the epoch that the end belongs to (KIP-279); 2 fences by leader epoch (KIP-320); 3 distinguishes
//! consumers from followers (KIP-392), and asks consumers for the right to describe the topic only, not for that of a
//! broker. 0 and 1 are gone since Kafka 4.0. A client must set `replica_id` to -1: its default is -2, which sees past
//! the high watermark.

request! {
    OffsetForLeaderEpoch = 23, versions 0..=4, flexible 4, OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse
}

messages! {
    /// What is asked.
    struct OffsetForLeaderEpochRequest {
        replica_id: i32 = -2 => 3.., [ignorable];
        topics: Vec<OffsetForLeaderTopic> => 0..;
    }

    /// The partitions of one topic.
    struct OffsetForLeaderTopic {
        topic: String => 0..;
        partitions: Vec<OffsetForLeaderPartition> => 0..;
    }

    /// The epoch to look for.
    struct OffsetForLeaderPartition {
        partition: i32 => 0..;
        current_leader_epoch: i32 = -1 => 2.., [ignorable];
        leader_epoch: i32 => 0..;
    }

    /// What is answered.
    struct OffsetForLeaderEpochResponse {
        throttle_time_ms: i32 => 2.., [ignorable];
        topics: Vec<OffsetForLeaderTopicResult> => 0..;
    }

    /// The ends in one topic.
    struct OffsetForLeaderTopicResult {
        topic: String => 0..;
        partitions: Vec<EpochEndOffset> => 0..;
    }

    /// The last epoch up to the one asked for, and the offset after its records.
    struct EpochEndOffset {
        error_code: i16 => 0..;
        partition: i32 => 0..;
        leader_epoch: i32 = -1 => 1.., [ignorable];
        end_offset: i64 = -1 => 0..;
    }
}
