//! ConsumerGroupHeartbeat: joins, stays in and leaves a group whose coordinator assigns (KIP-848).
//!
//! Epoch 0 joins, −1 leaves, −2 leaves for a static member that will be back. What has not changed since the last
//! heartbeat is null, −1 in the case of the timeout. 1 has a pattern of topics, and member ids that the member makes
//! itself (KIP-1082).

use super::types::Uuid;

request! {
    ConsumerGroupHeartbeat = 68, versions 0..=1, flexible 0,
    ConsumerGroupHeartbeatRequest => ConsumerGroupHeartbeatResponse
}

messages! {
    /// What is asked.
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

    /// What is answered; an assignment is there only when it is to be taken up.
    struct ConsumerGroupHeartbeatResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        member_id: Option<String> => 0..;
        member_epoch: i32 => 0..;
        heartbeat_interval_ms: i32 => 0..;
        assignment: Option<Assignment> => 0..;
    }

    /// The partitions that the member may use from now on.
    struct Assignment {
        topic_partitions: Vec<TopicPartitions> => 0..;
    }

    /// Partitions of a topic.
    struct TopicPartitions {
        topic_id: Uuid => 0..;
        partitions: Vec<i32> => 0..;
    }
}
