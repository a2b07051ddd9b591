//! SaslHandshake, v0–v1: selects the SASL mechanism.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::SaslHandshakeRequest;
use samsarrow_wire::messages::sasl_handshake::SaslHandshakeResponse;
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};

impl Handler for SaslHandshakeRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let response = lock(call.session).handshake(call.node, call.version, &self.mechanism, &call.state.security);
        call.reply::<Self>(&SaslHandshakeResponse {
            error_code: response.error.code(),
            mechanisms: response.mechanisms,
            ..SaslHandshakeResponse::default()
        })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> SaslHandshakeResponse {
        SaslHandshakeResponse { error_code: code.code(), ..SaslHandshakeResponse::default() }
    }
}
