//! UpdateFeatures: levels of features of the whole cluster (KIP-584).
//!
//! 1 can downgrade with and without loss, and only try (KIP-778); 2 has one outcome for all (KIP-1022).

request! { UpdateFeatures = 57, versions 0..=2, flexible 0, UpdateFeaturesRequest => UpdateFeaturesResponse }

messages! {
    /// What is asked.
    struct UpdateFeaturesRequest {
        timeout_ms: i32 = 60000 => 0..;
        feature_updates: Vec<FeatureUpdateKey> => 0..;
        validate_only: bool => 1..;
    }

    /// What changes of one feature.
    struct FeatureUpdateKey {
        feature: String => 0..;
        max_version_level: i16 => 0..;
        upgrade_type: i8 = 1 => 1..;
        allow_downgrade: bool => 0..=0;
    }

    /// What is answered.
    struct UpdateFeaturesResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        results: Vec<UpdatableFeatureResult> => 0..=1, [ignorable];
    }

    /// What became of one feature.
    struct UpdatableFeatureResult {
        feature: String => 0..;
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
    }
}
