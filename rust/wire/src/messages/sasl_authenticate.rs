//! SaslAuthenticate: one token of the mechanism there, one back (KIP-152).
//!
//! 1 says how long the session lasts (KIP-368).

use bytes::Bytes;

request! { SaslAuthenticate = 36, versions 0..=2, flexible 2, SaslAuthenticateRequest => SaslAuthenticateResponse }

messages! {
    /// What is asked.
    struct SaslAuthenticateRequest {
        auth_bytes: Bytes => 0..;
    }

    /// What is answered.
    struct SaslAuthenticateResponse {
        error_code: i16 => 0..;
        error_message: Option<String> => 0..;
        auth_bytes: Bytes => 0..;
        session_lifetime_ms: i64 => 1.., [ignorable];
    }
}
