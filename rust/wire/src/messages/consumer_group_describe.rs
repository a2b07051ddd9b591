//! ConsumerGroupDescribe API: returns the epochs, members and assignments of groups of the consumer protocol (KIP-848).
//!
//! v1 returns whether a member uses the classic or the consumer protocol (KIP-1099).

use super::types::Uuid;

request! {
    ConsumerGroupDescribe = 69, versions 0..=1, flexible 0,
    ConsumerGroupDescribeRequest => ConsumerGroupDescribeResponse
}

messages! {
    struct ConsumerGroupDescribeRequest {
        group_ids: Vec<String> => 0..;
        include_authorized_operations: bool => 0..;
    }

    struct ConsumerGroupDescribeResponse {
        throttle_time_ms: i32 => 0..;
        groups: Vec<DescribedGroup> => 0..;
    }

    /// A described group of the consumer protocol.
    struct DescribedGroup {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        group_id: String => 0..;
        group_state: String => 0..;
        group_epoch: i32 => 0..;
        assignment_epoch: i32 => 0..;
        assignor_name: String => 0..;
        members: Vec<Member> => 0..;
        authorized_operations: i32 = -2147483648 => 0..;
    }

    /// A member. Its type is 0 for the classic protocol, 1 for the consumer protocol, and −1 if unknown.
    struct Member {
        member_id: String => 0..;
        instance_id: Option<String> => 0..;
        rack_id: Option<String> => 0..;
        member_epoch: i32 => 0..;
        client_id: String => 0..;
        client_host: String => 0..;
        subscribed_topic_names: Vec<String> => 0..;
        subscribed_topic_regex: Option<String> => 0..;
        assignment: Assignment => 0..;
        target_assignment: Assignment => 0..;
        member_type: i8 = -1 => 1.., [ignorable];
    }

    /// The partitions of a member. Kafka 3.7 sends null if the member has no partitions.
    struct Assignment {
        topic_partitions: Vec<TopicPartitions> => 0.., null_with any;
    }

    /// The assigned partitions of one topic.
    struct TopicPartitions {
        topic_id: Uuid => 0..;
        topic_name: String => 0..;
        partitions: Vec<i32> => 0..;
    }
}
