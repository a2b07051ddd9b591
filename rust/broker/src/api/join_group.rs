//! JoinGroup, v0–v9. The response is sent when all members have joined.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{JoinGroupRequest, JoinGroupResponse};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Call, Outcome, Serve};
use crate::state::groups::classic::Joiner;
use crate::sync::lock;

/// First version in which the protocol name may be null.
const FIRST_WITH_NULL_PROTOCOL: i16 = 7;

impl Serve for JoinGroupRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        if let Err(code) = call.check_group(&self.group_id) {
            return call.reply::<Self>(&self.refuse(call.version, code));
        }
        let (answer, answered) = oneshot::channel();
        let client_host = call.client_host();
        let joiner =
            Joiner { request: &self, version: call.version, client_id: call.client_id, client_host: &client_host };
        lock(&call.state.groups).join(Instant::now(), &joiner, answer);
        call.state.group_clock.notify_one();
        let mut response = match call.wait_for(answered).await {
            Some(response) => response,
            None => self.refuse(call.version, ErrorCode::UNKNOWN_MEMBER_ID),
        };
        if call.version < FIRST_WITH_NULL_PROTOCOL {
            response.protocol_name.get_or_insert_default();
        }
        call.reply::<Self>(&response)
    }

    fn refuse(&self, version: i16, code: ErrorCode) -> JoinGroupResponse {
        JoinGroupResponse {
            error_code: code.code(),
            member_id: self.member_id.clone(),
            protocol_name: (version < FIRST_WITH_NULL_PROTOCOL).then(String::new),
            ..JoinGroupResponse::default()
        }
    }
}
