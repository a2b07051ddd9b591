//! ExpireDelegationToken API: changes the expiry of a token, or expires it immediately (KIP-48).

use super::Hidden;

request! {
    ExpireDelegationToken = 40, versions 0..=2, flexible 2,
    ExpireDelegationTokenRequest => ExpireDelegationTokenResponse
}

messages! {
    struct ExpireDelegationTokenRequest {
        hmac: Hidden => 0..;
        expiry_time_period_ms: i64 => 0..;
    }

    struct ExpireDelegationTokenResponse {
        error_code: i16 => 0..;
        expiry_timestamp_ms: i64 => 0..;
        throttle_time_ms: i32 => 0..;
    }
}
