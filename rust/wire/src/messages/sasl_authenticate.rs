//! SaslAuthenticate API: exchanges one token of a SASL mechanism (KIP-152).
//!
//! v1 returns the session lifetime (KIP-368).

use bytes::Bytes;

request! { SaslAuthenticate = 36, versions 0..=2, flexible 2, SaslAuthenticateRequest => SaslAuthenticateResponse }

messages! {
    struct SaslAuthenticateRequest {
        auth_bytes: Bytes => 0..;
    }

    struct SaslAuthenticateResponse {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        auth_bytes: Bytes => 0..;
        session_lifetime_ms: i64 => 1.., [ignorable];
    }
}
