//! SaslHandshake API: selects the SASL mechanism.
//!
//! After v0 the mechanism's tokens are sent as raw bytes after their length; after v1 they are sent in SaslAuthenticate
//! (KIP-152).

request! { SaslHandshake = 17, versions 0..=1, flexible 99, SaslHandshakeRequest => SaslHandshakeResponse }

messages! {
    struct SaslHandshakeRequest {
        mechanism: String => 0..;
    }

    struct SaslHandshakeResponse {
        error_code: i16 => 0..;
        mechanisms: Vec<String> => 0..;
    }
}
