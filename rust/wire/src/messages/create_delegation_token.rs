//! CreateDelegationToken API: creates a temporary credential that needs no password (KIP-48).
//!
//! v3 can create tokens for other owners (KIP-373).

use super::Hidden;

request! {
    CreateDelegationToken = 38, versions 0..=3, flexible 2,
    CreateDelegationTokenRequest => CreateDelegationTokenResponse
}

messages! {
    /// The request. If it has no owner, the token belongs to the authenticated principal.
    struct CreateDelegationTokenRequest {
        owner_principal_type: Option<String> => 3..;
        owner_principal_name: Option<String> => 3..;
        renewers: Vec<CreatableRenewers> => 0..;
        max_lifetime_ms: i64 => 0..;
    }

    /// A principal other than the owner that may renew the token.
    struct CreatableRenewers {
        principal_type: String => 0..;
        principal_name: String => 0..;
    }

    struct CreateDelegationTokenResponse {
        error_code: i16 => 0..;
        principal_type: String => 0..;
        principal_name: String => 0..;
        token_requester_principal_type: String => 3.., [ignorable];
        token_requester_principal_name: String => 3.., [ignorable];
        issue_timestamp_ms: i64 => 0..;
        expiry_timestamp_ms: i64 => 0..;
        max_timestamp_ms: i64 => 0..;
        token_id: String => 0..;
        hmac: Hidden => 0..;
        throttle_time_ms: i32 => 0..;
    }
}
