//! SaslHandshake API: selects the SASL mechanism.
//!
//! After a v0 handshake, each token of the mechanism is sent as its length and the raw bytes; after v1, tokens are sent
//! in SaslAuthenticate requests (KIP-152).

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
