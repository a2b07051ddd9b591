//! What brokers and issuers of tokens say, for rust/fuzz.

use super::gssapi::choose;
use super::scram::{Challenge, Conversation};
use crate::config::credentials::{Token, jwt};

/// A broker's first message of SCRAM to anyone who sent `nonce`: its nonce, the salt and the iterations.
pub fn scram_challenge(message: &str, nonce: &str) -> Option<(String, Vec<u8>, u32)> {
    let challenge = Challenge::parse(message, nonce).ok()?;
    Some((challenge.nonce.to_owned(), challenge.salt, challenge.iterations.get()))
}

/// Whether a broker's last message of SCRAM has this signature.
pub fn scram_signature(message: &str, wanted: &[u8]) -> bool {
    Conversation::verify(message, wanted).is_ok()
}

/// Whether a broker's offer of security layers has "none".
pub fn gssapi_offer(offer: &[u8]) -> bool {
    choose(offer).is_ok()
}

/// Whether a text can be used as a token, and has claims.
pub fn token(text: &str) -> (bool, bool) {
    (Token::new(text.to_owned(), None).is_ok(), jwt::claims(text).is_some())
}
