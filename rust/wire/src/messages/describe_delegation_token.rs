//! DescribeDelegationToken API: returns the tokens of some or all owners (KIP-48).
//!
//! v3 returns the principal that requested a token (KIP-373).

use super::Hidden;

request! {
    DescribeDelegationToken = 41, versions 0..=3, flexible 2,
    DescribeDelegationTokenRequest => DescribeDelegationTokenResponse
}

messages! {
    /// The request; null owners stand for all owners.
    struct DescribeDelegationTokenRequest {
        owners: Option<Vec<DescribeDelegationTokenOwner>> => 0..;
    }

    /// An owner whose tokens are requested.
    struct DescribeDelegationTokenOwner {
        principal_type: String => 0..;
        principal_name: String => 0..;
    }

    struct DescribeDelegationTokenResponse {
        error_code: i16 => 0..;
        tokens: Vec<DescribedDelegationToken> => 0..;
        throttle_time_ms: i32 => 0..;
    }

    /// A token with its owner, its times and its renewers.
    struct DescribedDelegationToken {
        principal_type: String => 0..;
        principal_name: String => 0..;
        token_requester_principal_type: String => 3.., [ignorable];
        token_requester_principal_name: String => 3.., [ignorable];
        issue_timestamp: i64 => 0..;
        expiry_timestamp: i64 => 0..;
        max_timestamp: i64 => 0..;
        token_id: String => 0..;
        hmac: Hidden => 0..;
        renewers: Vec<DescribedDelegationTokenRenewer> => 0..;
    }

    /// A principal other than the owner that may renew the token.
    struct DescribedDelegationTokenRenewer {
        principal_type: String => 0..;
        principal_name: String => 0..;
    }
}
