//! Heartbeat, v0–v4.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{HeartbeatRequest, HeartbeatResponse};
use tokio::time::Instant;

use super::{Call, Outcome, Serve};
use crate::sync::lock;

impl Serve for HeartbeatRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let beat =
            call.check_group(&self.group_id).and_then(|()| lock(&call.state.groups).heartbeat(Instant::now(), &self));
        call.reply::<Self>(&self.refuse(call.version, beat.err().unwrap_or(ErrorCode::NONE)))
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> HeartbeatResponse {
        HeartbeatResponse { error_code: code.code(), ..HeartbeatResponse::default() }
    }
}
