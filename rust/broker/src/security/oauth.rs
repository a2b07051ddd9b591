//! Server side of OAUTHBEARER (RFC 7628, KIP-255). It accepts unsecured JWTs, which have no signature and prove
//! nothing.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::sasl_exchange::{Rejection, Step};
use crate::clock::now_ms;

const SEPARATOR: char = '\x01';
/// Message that a client sends after an error challenge, to end the exchange.
const DUMMY_RESPONSE: &[u8] = b"\x01";
const INVALID_TOKEN: &str = r#"{"status":"invalid_token"}"#;

/// State of one OAUTHBEARER exchange.
#[derive(Debug, Default)]
pub(super) struct OAuthBearer {
    rejected: bool,
}

impl OAuthBearer {
    pub(super) fn evaluate(&mut self, message: &[u8]) -> Result<Step, Rejection> {
        if self.rejected && message == DUMMY_RESPONSE {
            return Err(Rejection::explained(INVALID_TOKEN));
        }
        let (identity, token) = parse_client_response(message).ok_or(Rejection::Generic)?;
        let Some((principal, expires_ms)) = validate(token, now_ms()) else {
            self.rejected = true;
            return Ok(Step::Challenge(Bytes::from_static(INVALID_TOKEN.as_bytes())));
        };
        if !identity.is_empty() && identity != principal {
            let reason = format!(
                "Authentication failed: Client requested an authorization id ({identity}) that is different from the \
                 token's principal name ({principal})"
            );
            return Err(Rejection::Explained(reason));
        }
        Ok(Step::Done { token: Bytes::new(), principal, expires_ms: Some(expires_ms) })
    }
}

/// Parses the identity and the token of `n,[a=IDENTITY],␁auth=Bearer TOKEN␁[NAME=VALUE␁]…␁`.
fn parse_client_response(message: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(message).ok()?;
    let (header, pairs) = text.split_once(SEPARATOR)?;
    let identity = header.strip_prefix("n,")?.strip_suffix(',')?;
    let identity = if identity.is_empty() { identity } else { identity.strip_prefix("a=")? };
    let pairs = pairs.strip_suffix("\x01\x01")?;
    let mut token = None;
    for pair in pairs.split(SEPARATOR) {
        let (name, value) = pair.split_once('=')?;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return None;
        }
        if name == "auth" {
            let (scheme, value) = value.split_once(' ')?;
            let value = value.trim_start_matches(' ');
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            if !scheme.eq_ignore_ascii_case("bearer") || value.is_empty() || !value.bytes().all(is_token) {
                return None;
            }
            token = Some(value);
        }
    }
    Some((identity, token?))
}

fn decode_part(encoded: &str) -> Option<Map<String, Value>> {
    let bytes = URL_SAFE_NO_PAD.decode(encoded.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Returns a time claim, converted to milliseconds. Claims are in seconds and may be fractional.
fn millis(claims: &Map<String, Value>, name: &str) -> Option<i64> {
    let seconds = claims.get(name)?.as_f64()?;
    // The cast saturates if the claim exceeds the range of `i64`.
    #[allow(clippy::cast_possible_truncation, reason = "saturates")]
    let millis = (seconds * 1000.0) as i64;
    Some(millis)
}

/// Returns the principal of a token and its expiry in milliseconds since 1970. Returns `None` if the token is invalid
/// at `now`.
fn validate(token: &str, now: i64) -> Option<(String, i64)> {
    let mut parts = token.split('.');
    let (header, claims, signature) = (decode_part(parts.next()?)?, decode_part(parts.next()?)?, parts.next()?);
    let is_unsecured = header.get("alg")?.as_str()? == "none" && signature.is_empty() && parts.next().is_none();
    let principal = claims.get("sub")?.as_str()?.to_owned();
    let expires = millis(&claims, "exp")?;
    let is_valid_now = expires > now && (!claims.contains_key("iat") || millis(&claims, "iat")? <= now);
    (is_unsecured && is_valid_now && !principal.trim().is_empty()).then_some((principal, expires))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> String {
        format!("{}.{}.", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn token_is_valid_from_issue_to_expiry() {
        let none = r#"{"alg":"none"}"#;
        let good = token(none, r#"{"sub":"alice","iat":10,"exp":20.5}"#);
        assert_eq!(validate(&good, 10_000), Some(("alice".to_owned(), 20_500)));
        for at in [0, 9999, 20_500, i64::MAX] {
            assert_eq!(validate(&good, at), None, "{at}");
        }
        assert!(validate(&token(none, r#"{"sub":"alice","exp":1e300}"#), 0).is_some());
        for claims in [
            r#"{"sub":"alice"}"#,
            r#"{"exp":20}"#,
            r#"{"sub":"","exp":20}"#,
            r#"{"sub":7,"exp":20}"#,
            r#"{"sub":"alice","exp":"20"}"#,
            r#"{"sub":"alice","exp":20,"iat":"1"}"#,
            "[]",
            "",
        ] {
            assert_eq!(validate(&token(none, claims), 10), None, "{claims}");
        }
    }

    #[test]
    fn rejects_secured_tokens() {
        let claims = r#"{"sub":"alice","exp":20}"#;
        assert_eq!(validate(&token(r#"{"alg":"HS256"}"#, claims), 10), None);
        assert_eq!(validate(&token("{}", claims), 10), None);
        let good = token(r#"{"alg":"none"}"#, claims);
        assert!(validate(&good, 10).is_some());
        for bad in [format!("{good}x"), format!("{good}."), good.trim_end_matches('.').to_owned(), String::new()] {
            assert_eq!(validate(&bad, 10), None, "{bad}");
        }
    }

    #[test]
    fn parses_client_response() {
        assert_eq!(parse_client_response(b"n,,\x01auth=Bearer a.b.\x01\x01"), Some(("", "a.b.")));
        assert_eq!(parse_client_response(b"n,a=bob,\x01auth=bEaReR  a\x01x=y z\x01\x01"), Some(("bob", "a")));
        for bad in [
            &b""[..],
            b"\x01",
            b"n,,\x01\x01",
            b"n,,\x01auth=Bearer a\x01",
            b"y,,\x01auth=Bearer a\x01\x01",
            b"n,b=x,\x01auth=Bearer a\x01\x01",
            b"n,,\x01auth=Basic a\x01\x01",
            b"n,,\x01auth=Bearer a b\x01\x01",
            b"n,,\x01auth=Bearer \x01\x01",
            b"n,,\x01x1=y\x01auth=Bearer a\x01\x01",
            b"n,,\x01x=y\x01\x01",
            b"n,,\x01auth=Bearer \xff\x01\x01",
        ] {
            assert_eq!(parse_client_response(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn invalid_token_is_challenged_then_rejected() {
        let mut bearer = OAuthBearer::default();
        assert_eq!(bearer.evaluate(DUMMY_RESPONSE), Err(Rejection::Generic), "no challenge was sent");
        let challenge = Step::Challenge(Bytes::from_static(INVALID_TOKEN.as_bytes()));
        assert_eq!(bearer.evaluate(b"n,,\x01auth=Bearer a.b.\x01\x01"), Ok(challenge));
        assert_eq!(bearer.evaluate(DUMMY_RESPONSE), Err(Rejection::explained(INVALID_TOKEN)));
    }
}
