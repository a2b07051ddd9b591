//! ConsumerGroupHeartbeat API: joins a group of the consumer protocol, stays a member, and leaves the group (KIP-848).
//!
//! With member epoch 0 a member joins, with −1 it leaves, and with −2 a static member leaves temporarily. Fields that
//! have not changed since the last heartbeat are null; an unchanged rebalance timeout is −1. v1 adds a topic pattern,
//! and lets the client generate the member id (KIP-1082).

use super::types::Uuid;

request! {
    ConsumerGroupHeartbeat = 68, versions 0..=1, flexible 0,
    ConsumerGroupHeartbeatRequest => ConsumerGroupHeartbeatResponse
}

messages! {
    struct ConsumerGroupHeartbeatRequest {
        group_id: String => 0..;
        member_id: String => 0..;
        member_epoch: i32 => 0..;
        instance_id: Option<String> => 0..;
        rack_id: Option<String> => 0..;
        rebalance_timeout_ms: i32 = -1 => 0..;
        subscribed_topic_names: Option<Vec<String>> => 0..;
        subscribed_topic_regex: Option<String> => 1..;
        server_assignor: Option<String> => 0..;
        topic_partitions: Option<Vec<TopicPartitions>> => 0..;
    }

    /// The response. The assignment is null if it has not changed.
    struct ConsumerGroupHeartbeatResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        member_id: Option<String> => 0..;
        member_epoch: i32 => 0..;
        heartbeat_interval_ms: i32 => 0..;
        assignment: Option<Assignment> => 0..;
    }

    /// The partitions assigned to the member.
    struct Assignment {
        topic_partitions: Vec<TopicPartitions> => 0..;
    }

    /// The assigned partitions of one topic.
    struct TopicPartitions {
        topic_id: Uuid => 0..;
        partitions: Vec<i32> => 0..;
    }
}
