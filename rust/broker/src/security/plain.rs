//! Server side of PLAIN (RFC 4616).

use aws_lc_rs::constant_time::verify_slices_are_equal;

use super::options::Users;
use super::sasl_exchange::{Rejection, Step};

/// Checks the client token, the only token of a PLAIN exchange.
pub(super) fn evaluate(token: &[u8], users: &Users) -> Result<Step, Rejection> {
    let text = std::str::from_utf8(token).map_err(|_| Rejection::Generic)?;
    let parts: Vec<&str> = text.split('\0').collect();
    let &[identity, name, password] = parts.as_slice() else {
        return Err(Rejection::explained(format!(
            "Invalid SASL/PLAIN response: expected 3 tokens, got {}",
            parts.len()
        )));
    };
    for (field, value) in [("username", name), ("password", password)] {
        if value.is_empty() {
            return Err(Rejection::explained(format!("Authentication failed: {field} not specified")));
        }
    }
    let expected = users.password(name).map(str::as_bytes);
    if expected.is_none_or(|expected| verify_slices_are_equal(expected, password.as_bytes()).is_err()) {
        return Err(Rejection::explained("Authentication failed: Invalid username or password"));
    }
    if !identity.is_empty() && identity != name {
        return Err(Rejection::different_identity());
    }
    Ok(Step::done(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(token: &[u8]) -> Result<Step, Rejection> {
        super::evaluate(token, &[("alice", "secret"), ("bob", "")].into_iter().collect())
    }

    #[test]
    fn accepts_only_the_right_password() {
        assert_eq!(evaluate(b"\0alice\0secret"), Ok(Step::done("alice")));
        assert_eq!(evaluate(b"alice\0alice\0secret"), Ok(Step::done("alice")));
        let rejected = Err(Rejection::explained("Authentication failed: Invalid username or password"));
        for token in [&b"\0alice\0Secret"[..], b"\0alice\0secret2", b"\0Alice\0secret", b"\0carol\0x"] {
            assert_eq!(evaluate(token), rejected, "{token:?}");
        }
    }

    #[test]
    fn rejects_malformed_tokens() {
        for token in [&b""[..], b"\0alice", b"alice\0secret", b"\0alice\0secret\0", b"\0\0secret", b"\0bob\0"] {
            assert!(matches!(evaluate(token), Err(Rejection::Explained(_))), "{token:?}");
        }
        assert_eq!(evaluate(b"\0alice\0\xff"), Err(Rejection::Generic));
        assert_eq!(evaluate(b"bob\0alice\0secret"), Err(Rejection::different_identity()));
    }
}
