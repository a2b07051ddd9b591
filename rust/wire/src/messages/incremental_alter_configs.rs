//! IncrementalAlterConfigs: settings are set, deleted, appended to and subtracted from (KIP-339).

request! {
    IncrementalAlterConfigs = 44, versions 0..=1, flexible 1,
    IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse
}

messages! {
    /// What is asked.
    struct IncrementalAlterConfigsRequest {
        resources: Vec<AlterConfigsResource> => 0..;
        validate_only: bool => 0..;
    }

    /// What changes of one resource.
    struct AlterConfigsResource {
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        configs: Vec<AlterableConfig> => 0..;
    }

    /// What changes of one setting.
    struct AlterableConfig {
        name: String => 0..;
        config_operation: i8 => 0..;
        value: Option<String> => 0..;
    }

    /// What is answered.
    struct IncrementalAlterConfigsResponse {
        throttle_time_ms: i32 => 0..;
        responses: Vec<AlterConfigsResourceResponse> => 0..;
    }

    /// What became of one resource.
    struct AlterConfigsResourceResponse {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        resource_type: i8 => 0..;
        resource_name: String => 0..;
    }
}
