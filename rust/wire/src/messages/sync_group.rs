//! SyncGroup API: distributes the leader's assignment to the members of a classic group.
//!
//! v3 adds static members (KIP-345); v5 checks the protocol type and name (KIP-559).

use bytes::Bytes;

request! { SyncGroup = 14, versions 0..=5, flexible 4, SyncGroupRequest => SyncGroupResponse }

messages! {
    struct SyncGroupRequest {
        group_id: String => 0..;
        generation_id: i32 => 0..;
        member_id: String => 0..;
        group_instance_id: Option<String> => 3..;
        protocol_type: Option<String> => 5.., [ignorable];
        protocol_name: Option<String> => 5.., [ignorable];
        assignments: Vec<SyncGroupRequestAssignment> => 0..;
    }

    /// The assignment of one member.
    struct SyncGroupRequestAssignment {
        member_id: String => 0..;
        assignment: Bytes => 0..;
    }

    struct SyncGroupResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        error_code: i16 => 0..;
        protocol_type: Option<String> => 5.., [ignorable];
        protocol_name: Option<String> => 5.., [ignorable];
        assignment: Bytes => 0.., null_with error_code;
    }
}
