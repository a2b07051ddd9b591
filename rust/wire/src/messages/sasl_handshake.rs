//! SaslHandshake: the mechanism that a client wants to log in with.
//!
//! After 0 the mechanism's own tokens go over the wire as they are; after 1 they travel in SaslAuthenticate (KIP-152).

request! { SaslHandshake = 17, versions 0..=1, flexible 99, SaslHandshakeRequest => SaslHandshakeResponse }

messages! {
    /// What is asked.
    struct SaslHandshakeRequest {
        mechanism: String => 0..;
    }

    /// What is answered.
    struct SaslHandshakeResponse {
        error_code: i16 => 0..;
        mechanisms: Vec<String> => 0..;
    }
}
