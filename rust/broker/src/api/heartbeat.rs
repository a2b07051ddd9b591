//! Heartbeat, v0–v4.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{HeartbeatRequest, HeartbeatResponse};
use samsarrow_wire::sync::lock;
use tokio::time::Instant;

use super::{Call, Handler, Outcome};

impl Handler for HeartbeatRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let beat =
            call.check_group(&self.group_id).and_then(|()| lock(&call.state.groups).heartbeat(Instant::now(), &self));
        call.reply::<Self>(&self.error_response(call.version, beat.err().unwrap_or(ErrorCode::NONE)))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> HeartbeatResponse {
        HeartbeatResponse { error_code: code.code(), ..HeartbeatResponse::default() }
    }
}
