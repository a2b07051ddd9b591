//! LeaveGroup: members leave.
//!
//! 3 takes several members, static ones by their instance id (KIP-345); 5 has a reason (KIP-800).

request! { LeaveGroup = 13, versions 0..=5, flexible 4, LeaveGroupRequest => LeaveGroupResponse }

messages! {
    /// What is asked.
    struct LeaveGroupRequest {
        group_id: String => 0..;
        member_id: String => 0..=2;
        members: Vec<MemberIdentity> => 3..;
    }

    /// A member that leaves.
    struct MemberIdentity {
        member_id: String => 3..;
        group_instance_id: Option<String> => 3..;
        reason: Option<String> => 5.., [ignorable];
    }

    /// What is answered.
    struct LeaveGroupResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        error_code: i16 => 0..;
        members: Vec<MemberResponse> => 3..;
    }

    /// What became of one member.
    struct MemberResponse {
        member_id: String => 3..;
        group_instance_id: Option<String> => 3..;
        error_code: i16 => 3..;
    }
}
