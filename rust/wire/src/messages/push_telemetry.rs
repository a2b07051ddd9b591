//! PushTelemetry API: sends metrics of a client as OpenTelemetry's `MetricsData` (KIP-714).

use bytes::Bytes;

use super::types::Uuid;

request! { PushTelemetry = 72, versions 0..=0, flexible 0, PushTelemetryRequest => PushTelemetryResponse }

messages! {
    /// The request, with the encoded metrics.
    struct PushTelemetryRequest {
        client_instance_id: Uuid => 0..;
        subscription_id: i32 => 0..;
        terminating: bool => 0..;
        compression_type: i8 => 0..;
        metrics: Bytes => 0..;
    }

    struct PushTelemetryResponse {
        throttle_time_ms: i32 => 0..;
        error_code: i16 => 0..;
    }
}
