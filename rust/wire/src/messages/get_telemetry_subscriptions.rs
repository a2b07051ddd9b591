//! GetTelemetrySubscriptions API: returns the client metrics that the brokers subscribe to (KIP-714).

use super::types::Uuid;

request! { GetTelemetrySubscriptions = 71, versions 0..=0, flexible 0, GetTelemetrySubscriptionsRequest => GetTelemetrySubscriptionsResponse }

messages! {
    /// The request. A client that has no instance id yet sends zero.
    struct GetTelemetrySubscriptionsRequest {
        client_instance_id: Uuid => 0..;
    }

    /// The response. An empty list of metrics requests none; a list with one empty prefix requests all metrics.
    struct GetTelemetrySubscriptionsResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
        client_instance_id: Uuid => 0..;
        subscription_id: i32 => 0..;
        accepted_compression_types: Vec<i8> => 0..;
        push_interval_ms: i32 => 0..;
        telemetry_max_bytes: i32 => 0..;
        delta_temporality: bool => 0..;
        requested_metrics: Vec<String> => 0..;
    }
}
