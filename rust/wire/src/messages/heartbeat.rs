//! Heartbeat: a member is alive.
//!
//! 3 has static members (KIP-345).

request! { Heartbeat = 12, versions 0..=4, flexible 4, HeartbeatRequest => HeartbeatResponse }

messages! {
    /// What is asked.
    struct HeartbeatRequest {
        group_id: String => 0..;
        generation_id: i32 => 0..;
        member_id: String => 0..;
        group_instance_id: Option<String> => 3..;
    }

    /// What is answered.
    struct HeartbeatResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        error_code: i16 => 0..;
    }
}
