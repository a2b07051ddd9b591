//! JSON Web Tokens (RFC 7519): what is read of those of others, and how own ones are made.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// The claims of a token, no matter who signed it; None if it is no JWT. Brokers check signatures: a client only reads
/// when its token ends.
pub(crate) fn claims(token: &str) -> Option<Map<String, Value>> {
    let mut parts = token.split('.');
    let (_, claims, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&claims).ok()
}

/// A moment that a claim gives in seconds since 1970, whole or not (RFC 7519, NumericDate).
pub(crate) fn moment(claims: &Map<String, Value>, name: &str) -> Option<SystemTime> {
    time_of(claims.get(name)?.as_f64()?)
}

/// Seconds since 1970 as a time, where there is one.
pub(crate) fn time_of(seconds: f64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// Seconds since 1970.
pub(crate) fn seconds_of(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Header and claims as they are signed.
pub(crate) fn unsigned(header: &Map<String, Value>, claims: &Map<String, Value>) -> String {
    let part = |part: &Map<String, Value>| BASE64_URL_SAFE_NO_PAD.encode(Value::from(part.clone()).to_string());
    format!("{}.{}", part(header), part(claims))
}

/// The whole token, with a signature or, where there is none, without.
pub(crate) fn signed(unsigned: &str, signature: &[u8]) -> String {
    format!("{unsigned}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_and_what_is_no_token_is_none() {
        let header = Map::from_iter([("alg".to_owned(), "none".into())]);
        let written = Map::from_iter([("sub".to_owned(), "ä".into()), ("exp".to_owned(), 12.5.into())]);
        let token = signed(&unsigned(&header, &written), &[]);
        assert!(token.ends_with('.') && token.starts_with("eyJ"), "{token}");
        let read = claims(&token).unwrap();
        assert_eq!(read, written);
        assert_eq!(moment(&read, "exp"), Some(UNIX_EPOCH + Duration::from_millis(12_500)));
        for wrong in ["", "a", "a.b", "a.b.c", "a.bnVsbA.c", "a.e30.c.d", "..", "a.W10.c"] {
            assert_eq!(claims(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn moments_that_no_clock_has_are_none() {
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(time_of(wrong), None, "{wrong}");
        }
        let claims = Map::from_iter([("exp".to_owned(), "soon".into())]);
        assert_eq!(moment(&claims, "exp"), None);
    }
}
