//! Parsers of messages from brokers and token issuers, for rust/fuzz.

use super::gssapi::check_layer_offer;
use super::scram::{Challenge, ScramExchange};
use crate::config::credentials::{Token, jwt};

/// Parses a server-first message of SCRAM, sent in response to `nonce`. Returns the server nonce, the salt and the
/// number of iterations.
pub fn scram_challenge(message: &str, nonce: &str) -> Option<(String, Vec<u8>, u32)> {
    let challenge = Challenge::parse(message, nonce).ok()?;
    Some((challenge.nonce.to_owned(), challenge.salt, challenge.iterations.get()))
}

/// Returns true if a server-final message of SCRAM contains this signature.
pub fn scram_signature(message: &str, expected: &[u8]) -> bool {
    ScramExchange::verify(message, expected).is_ok()
}

/// Returns true if the security layers that a broker offers include "none".
pub fn gssapi_offer(offer: &[u8]) -> bool {
    check_layer_offer(offer).is_ok()
}

/// Returns two flags: true if a text is a valid token, and true if it has claims.
pub fn token(text: &str) -> (bool, bool) {
    (Token::new(text.to_owned(), None).is_ok(), jwt::claims(text).is_some())
}
