//! GetTelemetrySubscriptions, v0: the metrics requested from clients (KIP-714).

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::GetTelemetrySubscriptionsRequest;
use samsarrow_wire::messages::get_telemetry_subscriptions::GetTelemetrySubscriptionsResponse;
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};
use crate::state::telemetry::{millis, subscription_id};

impl Handler for GetTelemetrySubscriptionsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let Some(options) = &call.state.options.telemetry else {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::UNSUPPORTED_VERSION));
        };
        let client_instance_id = lock(&call.state.telemetry).subscribe(self.client_instance_id);
        call.reply::<Self>(&GetTelemetrySubscriptionsResponse {
            client_instance_id,
            subscription_id: subscription_id(options),
            accepted_compression_types: options
                .compression
                .iter()
                .filter_map(|codec| i8::try_from(codec.id()).ok())
                .collect(),
            push_interval_ms: millis(options.interval),
            telemetry_max_bytes: i32::try_from(options.max_bytes).unwrap_or(i32::MAX),
            delta_temporality: options.delta,
            requested_metrics: options.requested.clone(),
            ..GetTelemetrySubscriptionsResponse::default()
        })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> GetTelemetrySubscriptionsResponse {
        GetTelemetrySubscriptionsResponse { error_code: code.code(), ..Default::default() }
    }
}
