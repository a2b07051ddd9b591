//! UnregisterController API: removes the registration of a decommissioned controller.

request! {
    UnregisterController = 94, versions 0..=0, flexible 0,
    UnregisterControllerRequest => UnregisterControllerResponse
}

messages! {
    struct UnregisterControllerRequest {
        controller_id: i32 => 0..;
    }

    struct UnregisterControllerResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
