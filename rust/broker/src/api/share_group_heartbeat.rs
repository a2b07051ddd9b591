//! ShareGroupHeartbeat, v1 (KIP-932).

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};
use samsarrow_wire::sync::lock;
use tokio::time::Instant;

use super::{Call, Handler, Outcome};
use crate::state::groups::share::ShareHeartbeat;

impl Handler for ShareGroupHeartbeatRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if call.state.share_version() == 0 {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::UNSUPPORTED_VERSION));
        }
        if !call.state.is_coordinator(call.node, &self.group_id) {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::NOT_COORDINATOR));
        }
        let client_host = call.client_host();
        let settings = call.state.share_settings(&self.group_id);
        let heartbeat = ShareHeartbeat {
            request: &self,
            client_id: call.client_id,
            client_host: &client_host,
            settings: &settings,
        };
        let catalog = call.state.catalog();
        let response = lock(&call.state.groups).share_heartbeat(Instant::now(), &heartbeat, &catalog);
        call.state.group_clock.notify_one();
        if let Some(assignment) = response.as_ref().ok().and_then(|response| response.assignment.as_ref()) {
            let topics = assignment.topic_partitions.iter().map(|topic| topic.topic_id);
            call.state.initialize_shares(&self.group_id, topics);
        }
        call.reply::<Self>(&response.unwrap_or_else(|(code, message)| ShareGroupHeartbeatResponse {
            error_message: Some(message),
            ..self.error_response(call.version, code)
        }))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ShareGroupHeartbeatResponse {
        ShareGroupHeartbeatResponse { error_code: code.code(), ..ShareGroupHeartbeatResponse::default() }
    }
}
