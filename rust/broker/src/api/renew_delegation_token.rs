//! RenewDelegationToken, v0–v2: postpones the expiry of a token.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::RenewDelegationTokenRequest;
use samsarrow_wire::messages::renew_delegation_token::RenewDelegationTokenResponse;
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};
use crate::clock::now_ms;

impl Handler for RenewDelegationTokenRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let Some(principal) = call.principal() else {
            return call
                .reply::<Self>(&self.error_response(call.version, ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED));
        };
        match lock(&call.state.access).renew(&self.hmac.0, &principal, self.renew_period_ms, now_ms()) {
            Ok(expiry_timestamp_ms) => {
                call.reply::<Self>(&RenewDelegationTokenResponse { expiry_timestamp_ms, ..Default::default() })
            }
            Err(code) => call.reply::<Self>(&self.error_response(call.version, code)),
        }
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> RenewDelegationTokenResponse {
        RenewDelegationTokenResponse { error_code: code.code(), ..Default::default() }
    }
}
