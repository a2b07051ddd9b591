//! JSON Web Tokens (RFC 7519): reading claims and creating tokens.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// Returns the claims of a token without verifying its signature, or `None` if the token is not a JWT. Only brokers
/// verify signatures; the client needs only the expiry.
pub(crate) fn claims(token: &str) -> Option<Map<String, Value>> {
    let mut parts = token.split('.');
    let (_, claims, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&claims).ok()
}

/// Returns the time in a claim. Such a time is a NumericDate (RFC 7519), which may be fractional.
pub(crate) fn claim_time(claims: &Map<String, Value>, name: &str) -> Option<SystemTime> {
    from_unix_seconds(claims.get(name)?.as_f64()?)
}

/// Converts seconds since 1970 to a time. Returns `None` if the time is out of range.
pub(crate) fn from_unix_seconds(seconds: f64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// Returns the seconds from 1970 to this time.
pub(crate) fn seconds_of(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the signed part of a token: header and claims.
pub(crate) fn unsigned(header: &Map<String, Value>, claims: &Map<String, Value>) -> String {
    let part = |part: &Map<String, Value>| BASE64_URL_SAFE_NO_PAD.encode(Value::from(part.clone()).to_string());
    format!("{}.{}", part(header), part(claims))
}

/// Returns the complete token. `signature` is empty for an unsigned token.
pub(crate) fn signed(unsigned: &str, signature: &[u8]) -> String {
    format!("{unsigned}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_claims_and_rejects_invalid_tokens() {
        let header = Map::from_iter([("alg".to_owned(), "none".into())]);
        let written = Map::from_iter([("sub".to_owned(), "ä".into()), ("exp".to_owned(), 12.5.into())]);
        let token = signed(&unsigned(&header, &written), &[]);
        assert!(token.ends_with('.') && token.starts_with("eyJ"), "{token}");
        let read = claims(&token).unwrap();
        assert_eq!(read, written);
        assert_eq!(claim_time(&read, "exp"), Some(UNIX_EPOCH + Duration::from_millis(12_500)));
        for wrong in ["", "a", "a.b", "a.b.c", "a.bnVsbA.c", "a.e30.c.d", "..", "a.W10.c"] {
            assert_eq!(claims(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn out_of_range_times_are_none() {
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(from_unix_seconds(wrong), None, "{wrong}");
        }
        let claims = Map::from_iter([("exp".to_owned(), "soon".into())]);
        assert_eq!(claim_time(&claims, "exp"), None);
    }
}
