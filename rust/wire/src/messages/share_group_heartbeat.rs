//! ShareGroupHeartbeat API: joins a share group, stays a member, and leaves the group (KIP-932).
//!
//! With member epoch 0 a member joins, with −1 it leaves. The rack and the topics are null if they have not changed
//! since the last heartbeat; the first heartbeat must have topics. v0 belonged to the early access in Kafka 4.0.

use super::types::Uuid;

request! {
    ShareGroupHeartbeat = 76, versions 1..=1, flexible 1,
    ShareGroupHeartbeatRequest => ShareGroupHeartbeatResponse
}

messages! {
    struct ShareGroupHeartbeatRequest {
        group_id: String => 0..;
        member_id: String => 0..;
        member_epoch: i32 => 0..;
        rack_id: Option<String> => 0..;
        subscribed_topic_names: Option<Vec<String>> => 0..;
    }

    /// The response. The assignment is null if it has not changed.
    struct ShareGroupHeartbeatResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        member_id: Option<String> => 0..;
        member_epoch: i32 => 0..;
        heartbeat_interval_ms: i32 => 0..;
        assignment: Option<Assignment> => 0..;
    }

    /// The partitions assigned to the member. Other members can be assigned the same partitions.
    struct Assignment {
        topic_partitions: Vec<TopicPartitions> => 0..;
    }

    /// The assigned partitions of one topic.
    struct TopicPartitions {
        topic_id: Uuid => 0..;
        partitions: Vec<i32> => 0..;
    }
}
