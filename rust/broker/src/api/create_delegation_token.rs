//! CreateDelegationToken, v0–v3. Requires an authenticated principal, as Kafka does. Clients cannot log in with the
//! token.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::create_delegation_token::CreateDelegationTokenResponse;
use samsarrow_wire::messages::{CreateDelegationTokenRequest, Hidden};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};
use crate::clock::now_ms;

impl Handler for CreateDelegationTokenRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let Some(principal) = call.principal() else {
            return call
                .reply::<Self>(&self.error_response(call.version, ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED));
        };
        let owner = match (&self.owner_principal_type, &self.owner_principal_name) {
            (Some(kind), Some(name)) if !kind.is_empty() => (kind.clone(), name.clone()),
            _ => principal.clone(),
        };
        let renewers: Vec<_> = self.renewers.into_iter().map(|r| (r.principal_type, r.principal_name)).collect();
        let token = lock(&call.state.access).create_token((owner, principal), renewers, self.max_lifetime_ms, now_ms());
        let (principal_type, principal_name) = token.owner;
        let (token_requester_principal_type, token_requester_principal_name) = token.requester;
        call.reply::<Self>(&CreateDelegationTokenResponse {
            principal_type,
            principal_name,
            token_requester_principal_type,
            token_requester_principal_name,
            issue_timestamp_ms: token.issued,
            expiry_timestamp_ms: token.expires,
            max_timestamp_ms: token.ends,
            token_id: token.id,
            hmac: Hidden(token.hmac),
            ..CreateDelegationTokenResponse::default()
        })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> CreateDelegationTokenResponse {
        CreateDelegationTokenResponse { error_code: code.code(), ..CreateDelegationTokenResponse::default() }
    }
}
