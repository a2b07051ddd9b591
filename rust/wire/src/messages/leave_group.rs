//! LeaveGroup.

request! { LeaveGroup = 13, versions 0..=5, flexible 4, LeaveGroupRequest => LeaveGroupResponse }

messages! {
    /// The request as a whole.
    struct LeaveGroupRequest {
        group_id: String => 0..;
        member_id: String => 0..=2;
        members: Vec<MemberIdentity> => 3..;
    }

    /// A member identity.
    struct MemberIdentity {
        member_id: String => 3..;
        group_instance_id: Option<String> => 3..;
        reason: Option<String> => 5.., [ignorable];
    }

    /// The response as a whole.
    struct LeaveGroupResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        error_code: i16 => 0..;
        members: Vec<MemberResponse> => 3..;
    }

    /// A member response.
    struct MemberResponse {
        member_id: String => 3..;
        group_instance_id: Option<String> => 3..;
        error_code: i16 => 3..;
    }
}
