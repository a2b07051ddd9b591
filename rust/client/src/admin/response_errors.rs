//! Conversion of error codes in responses to errors with hints for the operator.

use std::fmt;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ApiKey;

use crate::error::{Error, Result};
use crate::security::redact::Redactor;

/// Converts the error code of a response to a result. An error contains the broker's message and a hint.
///
/// # Errors
/// Fails with the error of `code`, unless it is `NONE`.
pub(super) fn check(code: i16, message: Option<&str>, context: &str, key: ApiKey) -> Result<()> {
    let Err(code) = ErrorCode::from_i16(code).ok() else { return Ok(()) };
    let message = message
        .map(|text| Redactor::default().redact(text.trim().trim_end_matches('.')))
        .filter(|text| !text.is_empty());
    let message = match hint(code, key) {
        Some(hint) => Some(format!("{}; {hint}", message.as_deref().unwrap_or(code.description()))),
        None => message,
    };
    Err(Error::explained(code, context, message))
}

/// Like [`check`], but for the error code of one item.
///
/// # Errors
/// Fails with the error of `code`, unless it is `NONE`.
pub(super) fn check_item(key: ApiKey, item: impl fmt::Display, code: i16, message: Option<&str>) -> Result<()> {
    check(code, message, &format!("{} of {item}", key.name()), key)
}

/// Returns a hint on how to fix the error, for errors that need more explanation than the broker's message.
fn hint(code: ErrorCode, key: ApiKey) -> Option<&'static str> {
    let is_describe =
        matches!(key, ApiKey::DescribeAcls | ApiKey::DescribeUserScramCredentials | ApiKey::DescribeClientQuotas);
    Some(match code {
        ErrorCode::SECURITY_DISABLED => {
            "the cluster has no authorizer and so no ACLs: set authorizer.class.name on brokers and controllers"
        }
        ErrorCode::CLUSTER_AUTHORIZATION_FAILED if is_describe => {
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
            "the brokers have no token with this hmac: it may have expired, or is too new to be on all brokers"
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
    fn check_includes_context_message_and_hint() {
        let text = |code: ErrorCode, message| {
            check(code.code(), message, "DescribeAcls", ApiKey::DescribeAcls).unwrap_err().to_string()
        };
        assert_eq!(check(0, None, "DescribeAcls", ApiKey::DescribeAcls), Ok(()));
        assert_eq!(
            text(ErrorCode::SECURITY_DISABLED, Some("No Authorizer is configured.")),
            "DescribeAcls: SECURITY_DISABLED (54): No Authorizer is configured; the cluster has no authorizer and so no \
             ACLs: set authorizer.class.name on brokers and controllers"
        );
        assert!(text(ErrorCode::CLUSTER_AUTHORIZATION_FAILED, None).contains("needs the operation DESCRIBE"));
        let alter = check(31, Some(""), "CreateAcls", ApiKey::CreateAcls).unwrap_err().to_string();
        assert!(alter.starts_with("CreateAcls: CLUSTER_AUTHORIZATION_FAILED (31): "), "{alter}");
        assert!(alter.ends_with("; the user that is logged in needs the operation ALTER on the cluster"), "{alter}");
        assert_eq!(
            text(ErrorCode::INVALID_REQUEST, None),
            "DescribeAcls: INVALID_REQUEST (42): the request contradicts itself or the protocol"
        );
    }

    #[test]
    fn control_characters_in_broker_messages_are_escaped() {
        let long = format!("\u{1b}[2J{}", "x".repeat(400));
        let text = check(42, Some(&long), "a", ApiKey::CreateAcls).unwrap_err().to_string();
        let start = "a: INVALID_REQUEST (42): \\u{1b}[2Jxxx";
        assert!(text.starts_with(start) && text.ends_with("x…") && text.len() < 400, "{text}");
    }
}
