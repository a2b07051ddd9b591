//! FindCoordinator API: returns the coordinator of a group or a transactional id.
//!
//! v0 supports groups only; v4 allows several keys in one request (KIP-699); v6 supports share groups (KIP-932).

request! { FindCoordinator = 10, versions 0..=6, flexible 3, FindCoordinatorRequest => FindCoordinatorResponse }

messages! {
    struct FindCoordinatorRequest {
        key: String => 0..=3;
        key_type: i8 => 1..;
        coordinator_keys: Vec<String> => 4..;
    }

    struct FindCoordinatorResponse {
        throttle_time_ms: i32 => 1.., [ignorable];
        error_code: i16 => 0..=3;
        error_message: Option<String> => 1..=3, [ignorable];
        node_id: i32 => 0..=3;
        host: String => 0..=3;
        port: i32 => 0..=3;
        coordinators: Vec<Coordinator> => 4..;
    }

    /// The coordinator of one key.
    struct Coordinator {
        key: String => 4..;
        node_id: i32 => 4..;
        host: String => 4..;
        port: i32 => 4..;
        error_code: i16 => 4..;
        error_message: Option<String> => 4.., [ignorable];
    }
}
