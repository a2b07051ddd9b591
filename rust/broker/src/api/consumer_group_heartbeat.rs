//! ConsumerGroupHeartbeat, v0–v1 (KIP-848).

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use tokio::time::Instant;

use super::{Call, Outcome, Serve};
use crate::state::groups::consumer::Beat;
use crate::sync::lock;

impl Serve for ConsumerGroupHeartbeatRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        if !call.state.is_coordinator(call.node, &self.group_id) {
            return call.reply::<Self>(&self.refuse(call.version, ErrorCode::NOT_COORDINATOR));
        }
        let client_host = call.client_host();
        let beat = Beat { request: &self, version: call.version, client_id: call.client_id, client_host: &client_host };
        let catalog = call.state.catalog();
        let beaten = lock(&call.state.groups).consumer_heartbeat(Instant::now(), &beat, &catalog);
        call.state.group_clock.notify_one();
        call.reply::<Self>(&beaten.unwrap_or_else(|(code, why)| ConsumerGroupHeartbeatResponse {
            error_message: Some(why),
            ..self.refuse(call.version, code)
        }))
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> ConsumerGroupHeartbeatResponse {
        ConsumerGroupHeartbeatResponse { error_code: code.code(), ..ConsumerGroupHeartbeatResponse::default() }
    }
}
