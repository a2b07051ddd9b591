//! ConsumerGroupHeartbeat, v0–v1 (KIP-848).

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use samsarrow_wire::sync::lock;
use tokio::time::Instant;

use super::{Call, Handler, Outcome};
use crate::state::groups::consumer::MemberHeartbeat;

impl Handler for ConsumerGroupHeartbeatRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if !call.state.is_coordinator(call.node, &self.group_id) {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::NOT_COORDINATOR));
        }
        let client_host = call.client_host();
        let heartbeat = MemberHeartbeat {
            request: &self,
            version: call.version,
            client_id: call.client_id,
            client_host: &client_host,
        };
        let catalog = call.state.catalog();
        let response = lock(&call.state.groups).consumer_heartbeat(Instant::now(), &heartbeat, &catalog);
        call.state.group_clock.notify_one();
        call.reply::<Self>(&response.unwrap_or_else(|(code, message)| ConsumerGroupHeartbeatResponse {
            error_message: Some(message),
            ..self.error_response(call.version, code)
        }))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ConsumerGroupHeartbeatResponse {
        ConsumerGroupHeartbeatResponse { error_code: code.code(), ..ConsumerGroupHeartbeatResponse::default() }
    }
}
