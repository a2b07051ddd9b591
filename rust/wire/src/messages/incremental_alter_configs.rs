//! IncrementalAlterConfigs API: sets and deletes configurations, and adds and removes elements of lists (KIP-339).

request! {
    IncrementalAlterConfigs = 44, versions 0..=1, flexible 1,
    IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse
}

messages! {
    struct IncrementalAlterConfigsRequest {
        resources: Vec<AlterConfigsResource> => 0..;
        validate_only: bool => 0..;
    }

    /// The changes to the configurations of one resource.
    struct AlterConfigsResource {
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        configs: Vec<AlterableConfig> => 0..;
    }

    /// A change of one configuration.
    struct AlterableConfig {
        name: String => 0..;
        config_operation: i8 => 0..;
        value: Option<String> => 0..;
    }

    struct IncrementalAlterConfigsResponse {
        throttle_time_ms: i32 => 0..;
        responses: Vec<AlterConfigsResourceResponse> => 0..;
    }

    /// The result of the changes to one resource.
    struct AlterConfigsResourceResponse {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        resource_type: i8 => 0..;
        resource_name: String => 0..;
    }
}
