//! JoinGroup.

use bytes::Bytes;

request! { JoinGroup = 11, versions 0..=9, flexible 6, JoinGroupRequest => JoinGroupResponse }

messages! {
    /// The request as a whole.
    struct JoinGroupRequest {
        group_id: String => 0..;
        session_timeout_ms: i32 => 0..;
        rebalance_timeout_ms: i32 = -1 => 1.., [ignorable];
        member_id: String => 0..;
        group_instance_id: Option<String> => 5..;
        protocol_type: String => 0..;
        protocols: Vec<JoinGroupRequestProtocol> => 0..;
        reason: Option<String> => 8.., [ignorable];
    }

    /// A join group request protocol.
    struct JoinGroupRequestProtocol {
        name: String => 0..;
        metadata: Bytes => 0..;
    }

    /// The response as a whole.
    struct JoinGroupResponse {
        throttle_time_ms: i32 => 2.., [ignorable];
        error_code: i16 => 0..;
        generation_id: i32 = -1 => 0..;
        protocol_type: Option<String> => 7.., [ignorable];
        protocol_name: Option<String> => 0.., nullable 7..;
        leader: String => 0..;
        skip_assignment: bool => 9..;
        member_id: String => 0..;
        members: Vec<JoinGroupResponseMember> => 0..;
    }

    /// A join group response member.
    struct JoinGroupResponseMember {
        member_id: String => 0..;
        group_instance_id: Option<String> => 5.., [ignorable];
        metadata: Bytes => 0..;
    }
}
