//! Server side of PLAIN (RFC 4616).

use aws_lc_rs::constant_time::verify_slices_are_equal;

use super::conversation::{Refusal, Step};
use super::options::Users;

/// Checks the only token of the exchange.
pub(super) fn answer(token: &[u8], users: &Users) -> Result<Step, Refusal> {
    let text = std::str::from_utf8(token).map_err(|_| Refusal::Unsaid)?;
    let parts: Vec<&str> = text.split('\0').collect();
    let &[identity, name, password] = parts.as_slice() else {
        return Err(Refusal::said(format!("Invalid SASL/PLAIN response: expected 3 tokens, got {}", parts.len())));
    };
    for (what, given) in [("username", name), ("password", password)] {
        if given.is_empty() {
            return Err(Refusal::said(format!("Authentication failed: {what} not specified")));
        }
    }
    let known = users.password(name).map(str::as_bytes);
    if known.is_none_or(|known| verify_slices_are_equal(known, password.as_bytes()).is_err()) {
        return Err(Refusal::said("Authentication failed: Invalid username or password"));
    }
    if !identity.is_empty() && identity != name {
        return Err(Refusal::other_identity());
    }
    Ok(Step::done(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(token: &[u8]) -> Result<Step, Refusal> {
        super::answer(token, &[("alice", "secret"), ("bob", "")].into_iter().collect())
    }

    #[test]
    fn the_right_password_only() {
        assert_eq!(answer(b"\0alice\0secret"), Ok(Step::done("alice")));
        assert_eq!(answer(b"alice\0alice\0secret"), Ok(Step::done("alice")));
        let wrong = Err(Refusal::said("Authentication failed: Invalid username or password"));
        for token in [&b"\0alice\0Secret"[..], b"\0alice\0secret2", b"\0Alice\0secret", b"\0carol\0x"] {
            assert_eq!(answer(token), wrong, "{token:?}");
        }
    }

    #[test]
    fn what_is_no_such_token() {
        for token in [&b""[..], b"\0alice", b"alice\0secret", b"\0alice\0secret\0", b"\0\0secret", b"\0bob\0"] {
            assert!(matches!(answer(token), Err(Refusal::Said(_))), "{token:?}");
        }
        assert_eq!(answer(b"\0alice\0\xff"), Err(Refusal::Unsaid));
        assert_eq!(answer(b"bob\0alice\0secret"), Err(Refusal::other_identity()));
    }
}
