//! JoinGroup API: joins a classic group or its current rebalance.
//!
//! From v4 on, the first request only returns a member id (KIP-394); v5 adds static members (KIP-345); v7 returns the
//! protocol type (KIP-559); v8 adds a reason (KIP-800); v9 lets a returning static leader skip the assignment
//! (KIP-814).

use bytes::Bytes;

request! { JoinGroup = 11, versions 0..=9, flexible 6, JoinGroupRequest => JoinGroupResponse }

messages! {
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

    /// An assignor that the member supports, with the member's metadata for this assignor.
    struct JoinGroupRequestProtocol {
        name: String => 0..;
        metadata: Bytes => 0..;
    }

    struct JoinGroupResponse {
        throttle_time_ms: i32 => 2.., [ignorable];
        error_code: i16 => 0..;
        generation_id: i32 = -1 => 0..;
        protocol_type: Option<String> => 7.., [ignorable];
        protocol_name: Option<String> => 0.., nullable 7.., null_with error_code;
        leader: String => 0.., null_with error_code;
        skip_assignment: bool => 9..;
        member_id: String => 0.., null_with error_code;
        members: Vec<JoinGroupResponseMember> => 0..;
    }

    /// A member and its metadata, which the leader passes to the assignor.
    struct JoinGroupResponseMember {
        member_id: String => 0..;
        group_instance_id: Option<String> => 5.., [ignorable];
        metadata: Bytes => 0..;
    }
}
