//! JoinGroup, v0–v9. The response is delayed until all members have joined.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{JoinGroupRequest, JoinGroupResponse};
use samsarrow_wire::sync::lock;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Call, Handler, Outcome};
use crate::state::groups::classic::Joiner;

/// First version in which the protocol name may be null.
const FIRST_WITH_NULL_PROTOCOL: i16 = 7;

impl Handler for JoinGroupRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if let Err(code) = call.check_group(&self.group_id) {
            return call.reply::<Self>(&self.error_response(call.version, code));
        }
        let (sender, receiver) = oneshot::channel();
        let client_host = call.client_host();
        let joiner =
            Joiner { request: &self, version: call.version, client_id: call.client_id, client_host: &client_host };
        lock(&call.state.groups).join(Instant::now(), &joiner, sender);
        call.state.group_clock.notify_one();
        let mut response = match call.wait_for(receiver).await {
            Some(response) => response,
            None => self.error_response(call.version, ErrorCode::UNKNOWN_MEMBER_ID),
        };
        if call.version < FIRST_WITH_NULL_PROTOCOL {
            response.protocol_name.get_or_insert_default();
        }
        call.reply::<Self>(&response)
    }

    fn error_response(&self, version: i16, code: ErrorCode) -> JoinGroupResponse {
        JoinGroupResponse {
            error_code: code.code(),
            member_id: self.member_id.clone(),
            protocol_name: (version < FIRST_WITH_NULL_PROTOCOL).then(String::new),
            ..JoinGroupResponse::default()
        }
    }
}
