//! DescribeConfigs: settings of topics, brokers, loggers, groups and client metrics.
//!
//! 0 is gone since Kafka 4.0 and says only whether a value is the default; 1 says where it is from, with synonyms
//! (KIP-226); 3 has types and documentation (KIP-569).

request! { DescribeConfigs = 32, versions 0..=4, flexible 4, DescribeConfigsRequest => DescribeConfigsResponse }

messages! {
    /// What is asked.
    struct DescribeConfigsRequest {
        resources: Vec<DescribeConfigsResource> => 0..;
        include_synonyms: bool => 1..;
        include_documentation: bool => 3..;
    }

    /// Whose settings, and which of them: null stands for all.
    struct DescribeConfigsResource {
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        configuration_keys: Option<Vec<String>> => 0..;
    }

    /// What is answered.
    struct DescribeConfigsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<DescribeConfigsResult> => 0..;
    }

    /// The settings of one resource.
    struct DescribeConfigsResult {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        configs: Vec<DescribeConfigsResourceResult> => 0..;
    }

    /// One setting.
    struct DescribeConfigsResourceResult {
        name: String => 0..;
        value: Option<String> => 0..;
        read_only: bool => 0..;
        is_default: bool => 0..=0, [ignorable];
        config_source: i8 = -1 => 1.., [ignorable];
        is_sensitive: bool => 0..;
        synonyms: Vec<DescribeConfigsSynonym> => 1.., [ignorable];
        config_type: i8 => 3.., [ignorable];
        documentation: Option<String> => 3.., [ignorable];
    }

    /// Where else a setting has a value.
    struct DescribeConfigsSynonym {
        name: String => 0..;
        value: Option<String> => 0..;
        source: i8 => 0..;
    }
}
