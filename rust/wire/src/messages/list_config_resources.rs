//! ListConfigResources: what has settings (KIP-1142). 0 lists those of client metrics only (KIP-714).

request! {
    ListConfigResources = 74, versions 0..=1, flexible 0,
    ListConfigResourcesRequest => ListConfigResourcesResponse
}

messages! {
    /// What is asked.
    struct ListConfigResourcesRequest {
        resource_types: Vec<i8> => 1..;
    }

    /// What is answered.
    struct ListConfigResourcesResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        config_resources: Vec<ConfigResource> => 0..;
    }

    /// One of them.
    struct ConfigResource {
        resource_name: String => 0..;
        resource_type: i8 = 16 => 1.., [ignorable];
    }
}
