//! RenewDelegationToken API: extends the expiry of a token (KIP-48).

use super::Hidden;

request! {
    RenewDelegationToken = 39, versions 0..=2, flexible 2,
    RenewDelegationTokenRequest => RenewDelegationTokenResponse
}

messages! {
    struct RenewDelegationTokenRequest {
        hmac: Hidden => 0..;
        renew_period_ms: i64 => 0..;
    }

    struct RenewDelegationTokenResponse {
        error_code: i16 => 0..;
        expiry_timestamp_ms: i64 => 0..;
        throttle_time_ms: i32 => 0..;
    }
}
