//! ListConfigResources API: lists the resources that have configurations (KIP-1142). v0 lists client metrics only
//! (KIP-714).

request! {
    ListConfigResources = 74, versions 0..=1, flexible 0,
    ListConfigResourcesRequest => ListConfigResourcesResponse
}

messages! {
    struct ListConfigResourcesRequest {
        resource_types: Vec<i8> => 1..;
    }

    struct ListConfigResourcesResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        config_resources: Vec<ConfigResource> => 0..;
    }

    /// A resource that has configurations.
    struct ConfigResource {
        resource_name: String => 0..;
        resource_type: i8 = 16 => 1.., [ignorable];
    }
}
