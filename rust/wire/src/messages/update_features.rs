//! UpdateFeatures API: sets finalized feature levels of the cluster (KIP-584).
//!
//! v1 adds safe and unsafe downgrades, and validate_only (KIP-778); v2 returns one result for all features (KIP-1022).

request! { UpdateFeatures = 57, versions 0..=2, flexible 0, UpdateFeaturesRequest => UpdateFeaturesResponse }

messages! {
    struct UpdateFeaturesRequest {
        timeout_ms: i32 = 60000 => 0..;
        feature_updates: Vec<FeatureUpdateKey> => 0..;
        validate_only: bool => 1..;
    }

    /// The new maximum level of one feature, and how it may be changed.
    struct FeatureUpdateKey {
        feature: String => 0..;
        max_version_level: i16 => 0..;
        upgrade_type: i8 = 1 => 1..;
        allow_downgrade: bool => 0..=0;
    }

    struct UpdateFeaturesResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        results: Vec<UpdatableFeatureResult> => 0..=1, [ignorable];
    }

    /// The result of changing one feature.
    struct UpdatableFeatureResult {
        feature: String => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
