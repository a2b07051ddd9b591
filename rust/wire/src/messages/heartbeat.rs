//! Heartbeat API: keeps a member of a classic group alive.
//!
//! v3 adds static members (KIP-345).

request! { Heartbeat = 12, versions 0..=4, flexible 4, HeartbeatRequest => HeartbeatResponse }

messages! {
    struct HeartbeatRequest {
        group_id: String => 0..;
        generation_id: i32 => 0..;
        member_id: String => 0..;
        group_instance_id: Option<String> => 3..;
    }

    struct HeartbeatResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        error_code: i16 => 0..;
    }
}
