//! ApiVersions API: returns the API versions and features that a broker supports.
//!
//! v3 adds the client's name and version (KIP-511) and the broker's features (KIP-584); v4 allows features that start
//! at version 0; v5 adds the cluster and the broker that the client intends to reach (KIP-1242). A broker that does not
//! support the requested version responds with v0 (see `frame::decode_api_versions`).

request! { ApiVersions = 18, versions 0..=5, flexible 3, ApiVersionsRequest => ApiVersionsResponse }

messages! {
    struct ApiVersionsRequest {
        client_software_name: String => 3.., [ignorable];
        client_software_version: String => 3.., [ignorable];
        cluster_id: Option<String> => 5.., [ignorable];
        node_id: i32 = -1 => 5.., [ignorable];
    }

    struct ApiVersionsResponse {
        error_code: i16 => 0..;
        api_keys: Vec<ApiVersion> => 0..;
        throttle_time_ms: i32 => 1.., [ignorable];
        supported_features: Vec<SupportedFeatureKey> => 3.., tag 0, [ignorable];
        finalized_features_epoch: i64 = -1 => 3.., tag 1, [ignorable];
        finalized_features: Vec<FinalizedFeatureKey> => 3.., tag 2, [ignorable];
        zk_migration_ready: bool => 3.., tag 3, [ignorable];
    }

    /// The versions of one API that the broker supports.
    struct ApiVersion {
        api_key: i16 => 0..;
        min_version: i16 => 0..;
        max_version: i16 => 0..;
    }

    /// A feature that the broker supports.
    struct SupportedFeatureKey {
        name: String => 3..;
        min_version: i16 => 3..;
        max_version: i16 => 3..;
    }

    /// A feature and its finalized, cluster-wide level.
    struct FinalizedFeatureKey {
        name: String => 3..;
        max_version_level: i16 => 3..;
        min_version_level: i16 => 3..;
    }
}
