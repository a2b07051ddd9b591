//! SaslHandshake, v0–v1: selects the SASL mechanism.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::SaslHandshakeRequest;
use samsarrow_wire::messages::sasl_handshake::SaslHandshakeResponse;

use super::{Call, Outcome, Serve};
use crate::sync::lock;

impl Serve for SaslHandshakeRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let answer = lock(call.session).handshake(call.node, call.version, &self.mechanism, &call.state.security);
        call.reply::<Self>(&SaslHandshakeResponse {
            error_code: answer.error.code(),
            mechanisms: answer.mechanisms,
            ..SaslHandshakeResponse::default()
        })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> SaslHandshakeResponse {
        SaslHandshakeResponse { error_code: code.code(), ..SaslHandshakeResponse::default() }
    }
}
