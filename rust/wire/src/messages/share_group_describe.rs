//! ShareGroupDescribe API: returns share groups and their members (KIP-932).

use super::types::Uuid;

request! {
    ShareGroupDescribe = 77, versions 1..=1, flexible 1,
    ShareGroupDescribeRequest => ShareGroupDescribeResponse
}

messages! {
    struct ShareGroupDescribeRequest {
        group_ids: Vec<String> => 1..;
        include_authorized_operations: bool => 1..;
    }

    struct ShareGroupDescribeResponse {
        throttle_time_ms: i32 => 1..;
        groups: Vec<DescribedGroup> => 1..;
    }

    /// A described share group.
    struct DescribedGroup {
        error_code: i16 => 1..;
        error_message: Option<String> => 1..;
        group_id: String => 1..;
        group_state: String => 1..;
        group_epoch: i32 => 1..;
        assignment_epoch: i32 => 1..;
        assignor_name: String => 1..;
        members: Vec<Member> => 1..;
        authorized_operations: i32 = -2147483648 => 1..;
    }

    /// A member of a share group.
    struct Member {
        member_id: String => 1..;
        rack_id: Option<String> => 1..;
        member_epoch: i32 => 1..;
        client_id: String => 1..;
        client_host: String => 1..;
        subscribed_topic_names: Vec<String> => 1..;
        assignment: Assignment => 1..;
    }

    /// The partitions assigned to a member.
    struct Assignment {
        topic_partitions: Vec<TopicPartitions> => 1..;
    }

    /// The assigned partitions of one topic.
    struct TopicPartitions {
        topic_id: Uuid => 1..;
        topic_name: String => 1..;
        partitions: Vec<i32> => 1..;
    }
}
