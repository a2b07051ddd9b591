//! CreateDelegationToken: a login for a while, without a password (KIP-48).
//!
//! 3 makes them for others (KIP-373).

use super::Hidden;

request! {
    CreateDelegationToken = 38, versions 0..=3, flexible 2,
    CreateDelegationTokenRequest => CreateDelegationTokenResponse
}

messages! {
    /// What is asked; without an owner it is anyone who asks.
    struct CreateDelegationTokenRequest {
        owner_principal_type: Option<String> => 3..;
        owner_principal_name: Option<String> => 3..;
        renewers: Vec<CreatableRenewers> => 0..;
        max_lifetime_ms: i64 => 0..;
    }

    /// Who may renew the token besides its owner.
    struct CreatableRenewers {
        principal_type: String => 0..;
        principal_name: String => 0..;
    }

    /// What is answered.
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
