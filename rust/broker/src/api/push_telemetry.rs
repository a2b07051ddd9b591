//! PushTelemetry, v0: receives the metrics of a client (KIP-714).

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::PushTelemetryRequest;
use samsarrow_wire::messages::push_telemetry::PushTelemetryResponse;
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};

impl Handler for PushTelemetryRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let Some(options) = &call.state.options.telemetry else {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::UNSUPPORTED_VERSION));
        };
        let pushed = lock(&call.state.telemetry).push(options, call.client_id, self);
        let error_code = pushed.err().unwrap_or(ErrorCode::NONE).code();
        call.reply::<Self>(&PushTelemetryResponse { error_code, ..PushTelemetryResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> PushTelemetryResponse {
        PushTelemetryResponse { error_code: code.code(), ..PushTelemetryResponse::default() }
    }
}
