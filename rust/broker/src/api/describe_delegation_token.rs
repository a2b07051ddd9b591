//! DescribeDelegationToken, v0–v3: the tokens that the authenticated principal owns or may renew.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::describe_delegation_token::{
    DescribeDelegationTokenResponse, DescribedDelegationToken, DescribedDelegationTokenRenewer,
};
use samsarrow_wire::messages::{DescribeDelegationTokenRequest, Hidden};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};
use crate::clock::now_ms;
use crate::state::acls_and_users::{Principal, Token};

fn description(token: &Token) -> DescribedDelegationToken {
    let renewer = |(kind, name): &Principal| DescribedDelegationTokenRenewer {
        principal_type: kind.clone(),
        principal_name: name.clone(),
        ..Default::default()
    };
    let ((principal_type, principal_name), (by_type, by_name)) = (token.owner.clone(), token.requester.clone());
    DescribedDelegationToken {
        principal_type,
        principal_name,
        token_requester_principal_type: by_type,
        token_requester_principal_name: by_name,
        issue_timestamp: token.issued,
        expiry_timestamp: token.expires,
        max_timestamp: token.ends,
        token_id: token.id.clone(),
        hmac: Hidden(token.hmac.clone()),
        renewers: token.renewers.iter().map(renewer).collect(),
        ..DescribedDelegationToken::default()
    }
}

impl Handler for DescribeDelegationTokenRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let Some(principal) = call.principal() else {
            return call
                .reply::<Self>(&self.error_response(call.version, ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED));
        };
        let requested = |token: &&Token| {
            let is_owner = |owner: &Principal| *owner == token.owner;
            let is_requested_owner = |owners: &Vec<_>| {
                let mut owners = owners.iter();
                owners.any(|o: &samsarrow_wire::messages::describe_delegation_token::DescribeDelegationTokenOwner| {
                    is_owner(&(o.principal_type.clone(), o.principal_name.clone()))
                })
            };
            token.belongs_to(&principal) && self.owners.as_ref().is_none_or(is_requested_owner)
        };
        let mut access = lock(&call.state.access);
        let tokens = access.tokens(now_ms()).iter().filter(requested).map(description).collect();
        drop(access);
        call.reply::<Self>(&DescribeDelegationTokenResponse { tokens, ..DescribeDelegationTokenResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DescribeDelegationTokenResponse {
        DescribeDelegationTokenResponse { error_code: code.code(), ..DescribeDelegationTokenResponse::default() }
    }
}
