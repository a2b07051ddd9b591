//! ExpireDelegationToken, v0–v2: changes the expiry time of a token, or expires it immediately.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ExpireDelegationTokenRequest;
use samsarrow_wire::messages::expire_delegation_token::ExpireDelegationTokenResponse;
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};
use crate::clock::now_ms;

impl Handler for ExpireDelegationTokenRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let Some(principal) = call.principal() else {
            return call
                .reply::<Self>(&self.error_response(call.version, ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED));
        };
        match lock(&call.state.access).expire(&self.hmac.0, &principal, self.expiry_time_period_ms, now_ms()) {
            Ok(expiry_timestamp_ms) => {
                call.reply::<Self>(&ExpireDelegationTokenResponse { expiry_timestamp_ms, ..Default::default() })
            }
            Err(code) => call.reply::<Self>(&self.error_response(call.version, code)),
        }
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ExpireDelegationTokenResponse {
        ExpireDelegationTokenResponse { error_code: code.code(), ..Default::default() }
    }
}
