//! Heartbeat.

request! { Heartbeat = 12, versions 0..=4, flexible 4, HeartbeatRequest => HeartbeatResponse }

messages! {
    /// The request as a whole.
    struct HeartbeatRequest {
        group_id: String => 0..;
        generation_id: i32 => 0..;
        member_id: String => 0..;
        group_instance_id: Option<String> => 3..;
    }

    /// The response as a whole.
    struct HeartbeatResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        error_code: i16 => 0..;
    }
}
