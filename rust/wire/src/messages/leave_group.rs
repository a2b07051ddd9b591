//! LeaveGroup API: removes members from a classic group.
//!
//! v3 allows several members and adds instance ids of static members (KIP-345); v5 adds a reason (KIP-800).

request! { LeaveGroup = 13, versions 0..=5, flexible 4, LeaveGroupRequest => LeaveGroupResponse }

messages! {
    struct LeaveGroupRequest {
        group_id: String => 0..;
        member_id: String => 0..=2;
        members: Vec<MemberIdentity> => 3..;
    }

    /// A member to remove from the group.
    struct MemberIdentity {
        member_id: String => 3..;
        group_instance_id: Option<String> => 3..;
        reason: Option<String> => 5.., [ignorable];
    }

    struct LeaveGroupResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        error_code: i16 => 0..;
        members: Vec<MemberResponse> => 3..;
    }

    /// The result of removing one member.
    struct MemberResponse {
        member_id: String => 3..;
        group_instance_id: Option<String> => 3..;
        error_code: i16 => 3..;
    }
}
