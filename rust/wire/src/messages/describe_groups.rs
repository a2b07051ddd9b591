//! DescribeGroups API: returns the state, the members and the assignments of classic groups.
//!
//! v3 can return authorized operations (KIP-430); v4 adds static members (KIP-345); v6 adds error messages. For an
//! unknown group, v6 returns an error (KIP-1043); earlier versions return a group in the state `Dead`.

use bytes::Bytes;

request! { DescribeGroups = 15, versions 0..=6, flexible 5, DescribeGroupsRequest => DescribeGroupsResponse }

messages! {
    struct DescribeGroupsRequest {
        groups: Vec<String> => 0..;
        include_authorized_operations: bool => 3..;
    }

    struct DescribeGroupsResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        groups: Vec<DescribedGroup> => 0..;
    }

    /// A group; `protocol_data` is the name of the assignor.
    struct DescribedGroup {
        error_code: i16 => 0..;
        error_message: Option<String> => 6..;
        group_id: String => 0..;
        group_state: String => 0..;
        protocol_type: String => 0..;
        protocol_data: String => 0..;
        members: Vec<DescribedGroupMember> => 0..;
        authorized_operations: i32 = -2147483648 => 3..;
    }

    /// A member. Its metadata and assignment are only set while the group is stable.
    struct DescribedGroupMember {
        member_id: String => 0..;
        group_instance_id: Option<String> => 4.., [ignorable];
        client_id: String => 0..;
        client_host: String => 0..;
        member_metadata: Bytes => 0..;
        member_assignment: Bytes => 0..;
    }
}
