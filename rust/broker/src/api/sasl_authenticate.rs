//! SaslAuthenticate, v0–v2. Each request carries one token of the SASL mechanism. After SaslHandshake v0 clients send
//! tokens without a request header instead.

use bytes::{BufMut, Bytes, BytesMut};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::SaslAuthenticateRequest;
use samsarrow_wire::messages::sasl_authenticate::SaslAuthenticateResponse;
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};
use crate::security::Session;
use crate::state::State;

const NO_RESPONSE: &str = "the login failed, and no response can report it";

impl Handler for SaslAuthenticateRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let Some(response) = lock(call.session).token(call.node, &self.auth_bytes, &call.state.security) else {
            return Outcome::Close(NO_RESPONSE.to_owned());
        };
        call.reply::<Self>(&SaslAuthenticateResponse {
            error_code: response.error.code(),
            error_message: response.message,
            auth_bytes: response.token,
            session_lifetime_ms: response.session_lifetime_ms,
            ..SaslAuthenticateResponse::default()
        })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> SaslAuthenticateResponse {
        SaslAuthenticateResponse { error_code: code.code(), ..SaslAuthenticateResponse::default() }
    }
}

/// Handles an unframed token, sent without a request header. The response token is unframed too.
pub(crate) fn raw(node: i32, token: &Bytes, state: &State, session: &mut Session) -> Outcome {
    let Some(response) = session.token(node, token, &state.security) else {
        return Outcome::Close(NO_RESPONSE.to_owned());
    };
    let Ok(size) = i32::try_from(response.token.len()) else {
        return Outcome::Close(format!("a token of {} bytes", response.token.len()));
    };
    let mut length = BytesMut::with_capacity(4);
    length.put_i32(size);
    Outcome::Reply(vec![length.freeze(), response.token])
}
