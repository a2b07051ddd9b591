//! The errors that answers hold, with what to do about them.

use std::fmt;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

use crate::error::{Error, Result};
use crate::security::redact::Veil;

/// The error that an answer holds, if it does: what was asked, what the broker said of it, and what to do.
///
/// # Errors
/// That one.
pub(super) fn check(code: i16, message: Option<&str>, asked: &str, key: ApiKey) -> Result<()> {
    let Err(code) = ErrorCode::from_i16(code).ok() else { return Ok(()) };
    let said =
        message.map(|text| Veil::default().show(text.trim().trim_end_matches('.'))).filter(|text| !text.is_empty());
    let parts: Vec<String> = said.into_iter().chain(remedy(code, key).map(str::to_owned)).collect();
    Err(match parts.as_slice() {
        [] => Error::server(code, asked),
        parts => Error::server(code, format!("{asked} ({})", parts.join("; "))),
    })
}

/// The same of an item, which is named as in other errors of its API.
///
/// # Errors
/// That one.
pub(super) fn check_of(key: ApiKey, what: impl fmt::Display, code: i16, message: Option<&str>) -> Result<()> {
    check(code, message, &format!("{} of {what}", key.name()), key)
}

/// What to do about an error that the broker's own words leave open.
fn remedy(code: ErrorCode, key: ApiKey) -> Option<&'static str> {
    let reads =
        matches!(key, ApiKey::DescribeAcls | ApiKey::DescribeUserScramCredentials | ApiKey::DescribeClientQuotas);
    Some(match code {
        ErrorCode::SECURITY_DISABLED => {
            "the cluster has no authorizer and so no ACLs: set authorizer.class.name on brokers and controllers"
        }
        ErrorCode::CLUSTER_AUTHORIZATION_FAILED if reads => {
            "the user that is logged in needs the operation DESCRIBE on the cluster"
        }
        ErrorCode::CLUSTER_AUTHORIZATION_FAILED => {
            "the user that is logged in needs the operation ALTER on the cluster"
        }
        ErrorCode::DELEGATION_TOKEN_AUTH_DISABLED => {
            "set delegation.token.secret.key, to the same on all brokers and controllers"
        }
        ErrorCode::DELEGATION_TOKEN_REQUEST_NOT_ALLOWED => {
            "log in by SASL or with a client certificate, and not with a delegation token: only then brokers talk about \
             tokens"
        }
        ErrorCode::DELEGATION_TOKEN_NOT_FOUND => {
            "the brokers know no token with this hmac: it may have expired, or have been made a moment ago"
        }
        ErrorCode::DELEGATION_TOKEN_OWNER_MISMATCH => "a token is renewed and expired by its owner and its renewers",
        ErrorCode::DELEGATION_TOKEN_EXPIRED => "make a new one",
        ErrorCode::DELEGATION_TOKEN_AUTHORIZATION_FAILED => {
            "a token for another user needs the operation CREATE_TOKENS on that user"
        }
        ErrorCode::INVALID_PRINCIPAL_TYPE => "owners and renewers are of the type User, as in User:alice",
        ErrorCode::RESOURCE_NOT_FOUND => "the user has no such password",
        ErrorCode::DUPLICATE_RESOURCE => "name each user and mechanism once",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_was_asked_what_was_said_and_what_to_do() {
        let text = |code: ErrorCode, message| {
            check(code.code(), message, "DescribeAcls", ApiKey::DescribeAcls).unwrap_err().to_string()
        };
        assert_eq!(check(0, None, "DescribeAcls", ApiKey::DescribeAcls), Ok(()));
        assert_eq!(
            text(ErrorCode::SECURITY_DISABLED, Some("No Authorizer is configured.")),
            "DescribeAcls (No Authorizer is configured; the cluster has no authorizer and so no ACLs: set \
             authorizer.class.name on brokers and controllers): SECURITY_DISABLED (54): security is not enabled on the \
             broker"
        );
        assert!(text(ErrorCode::CLUSTER_AUTHORIZATION_FAILED, None).contains("needs the operation DESCRIBE"));
        let alter = check(31, Some(""), "CreateAcls", ApiKey::CreateAcls).unwrap_err().to_string();
        assert!(alter.starts_with("CreateAcls (the user that is logged in needs the operation ALTER"), "{alter}");
        assert_eq!(
            text(ErrorCode::INVALID_REQUEST, None),
            "DescribeAcls: INVALID_REQUEST (42): the request contradicts itself or the protocol"
        );
    }

    #[test]
    fn a_brokers_text_does_nothing_to_a_terminal() {
        let long = format!("\u{1b}[2J{}", "x".repeat(400));
        let text = check(42, Some(&long), "a", ApiKey::CreateAcls).unwrap_err().to_string();
        assert!(text.starts_with("a (\\u{1b}[2Jxxx") && text.contains("x…)") && text.len() < 400, "{text}");
    }
}
