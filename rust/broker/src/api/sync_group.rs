//! SyncGroup, v0–v5. The response is delayed until the leader has sent the assignment.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{SyncGroupRequest, SyncGroupResponse};
use samsarrow_wire::sync::lock;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Call, Handler, Outcome};

/// First version that requires the protocol type and name (KIP-559).
const FIRST_WITH_PROTOCOL: i16 = 5;

impl Handler for SyncGroupRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let is_named = self.protocol_type.is_some() && self.protocol_name.is_some();
        let checked = match call.check_group(&self.group_id) {
            Ok(()) if call.version >= FIRST_WITH_PROTOCOL && !is_named => Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
            checked => checked,
        };
        if let Err(code) = checked {
            return call.reply::<Self>(&self.error_response(call.version, code));
        }
        let (sender, receiver) = oneshot::channel();
        lock(&call.state.groups).sync(Instant::now(), &self, sender);
        call.state.group_clock.notify_one();
        let response = call.wait_for(receiver).await;
        call.reply::<Self>(&response.unwrap_or_else(|| self.error_response(call.version, ErrorCode::UNKNOWN_MEMBER_ID)))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> SyncGroupResponse {
        SyncGroupResponse { error_code: code.code(), ..SyncGroupResponse::default() }
    }
}
