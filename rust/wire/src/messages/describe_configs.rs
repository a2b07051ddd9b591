//! DescribeConfigs API: returns the configurations of topics, brokers, loggers, groups and client metrics.
//!
//! v0 was removed in Kafka 4.0; it has an `is_default` flag instead of the source of a value. v1 adds the source and
//! the synonyms (KIP-226); v3 adds types and documentation (KIP-569).

request! { DescribeConfigs = 32, versions 0..=4, flexible 4, DescribeConfigsRequest => DescribeConfigsResponse }

messages! {
    struct DescribeConfigsRequest {
        resources: Vec<DescribeConfigsResource> => 0..;
        include_synonyms: bool => 1..;
        include_documentation: bool => 3..;
    }

    /// A resource and the names of its configurations; null names stand for all configurations.
    struct DescribeConfigsResource {
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        configuration_keys: Option<Vec<String>> => 0..;
    }

    struct DescribeConfigsResponse {
        throttle_time_ms: i32 => 0..;
        results: Vec<DescribeConfigsResult> => 0..;
    }

    /// The configurations of one resource.
    struct DescribeConfigsResult {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        resource_type: i8 => 0..;
        resource_name: String => 0..;
        configs: Vec<DescribeConfigsResourceResult> => 0..;
    }

    /// A configuration with its value and source.
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

    /// A synonym: another source that defines the configuration, and the value defined there.
    struct DescribeConfigsSynonym {
        name: String => 0..;
        value: Option<String> => 0..;
        source: i8 => 0..;
    }
}
