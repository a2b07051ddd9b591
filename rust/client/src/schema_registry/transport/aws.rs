//! Signed requests to AWS Glue, and its responses.

use std::time::SystemTime;

use hyper::StatusCode;
use hyper::header::HeaderMap;
use serde_json::Value;

use super::{ErrorResponse, Responded, registry_error};
use crate::error::{Error, Result};
use crate::security::aws::AwsCredentials;
use crate::security::aws::signature::{Scope, signed_headers};
use crate::security::http::{Endpoint, Response};

const SERVICE: &str = "glue";
const JSON: &str = "application/x-amz-json-1.1";

/// Returns the headers of a request to the operation `target`, with the signature.
pub(super) fn sign(
    credentials: &AwsCredentials,
    region: &str,
    host: &str,
    target: &'static str,
    body: &str,
) -> Result<HeaderMap> {
    let scope = Scope::new(SystemTime::now(), region, SERVICE);
    signed_headers(&scope, credentials, host, JSON, Some(target), body)
}

/// Reads a response of AWS Glue. Errors are JSON objects with a type such as `EntityNotFoundException`.
pub(super) fn read(endpoint: &Endpoint, response: &Response, shown: impl Fn(&str) -> String) -> Result<Responded> {
    let status = response.status;
    let json: Option<Value> = serde_json::from_slice(&response.body).ok();
    if status.is_success() {
        let not_json = || {
            registry_error(
                endpoint,
                Some(status),
                "the response is not JSON: is this the endpoint of AWS Glue?".to_owned(),
            )
        };
        return json.map(Ok).ok_or_else(not_json);
    }
    let text = |names: &[&str]| {
        let json = json.as_ref()?;
        names.iter().find_map(|name| json.get(name)?.as_str())
    };
    let code = text(&["__type", "code"]).and_then(|kind| kind.rsplit('#').next()).unwrap_or_default();
    let message = shown(text(&["Message", "message"]).or(status.canonical_reason()).unwrap_or_default());
    let failed = |reason: String, retriable| Error::Registry {
        url: endpoint.display_url.clone(),
        reason,
        status: Some(status.as_u16()),
        retriable,
    };
    match code {
        "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "SignatureDoesNotMatch"
        | "ExpiredTokenException"
        | "InvalidClientTokenId"
        | "IncompleteSignatureException"
        | "MissingAuthenticationTokenException" => {
            Err(failed(format!("it rejects the AWS credentials ({code}: {message})"), false))
        }
        "AccessDeniedException" | "AccessDenied" => {
            Err(failed(format!("these AWS credentials need more rights ({code}: {message})"), false))
        }
        "ThrottlingException"
        | "ThrottledException"
        | "InternalServiceException"
        | "OperationTimeoutException"
        | "ConcurrentModificationException"
        | "RequestLimitExceeded" => Err(failed(format!("it responds with {code}: {message}"), true)),
        _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Err(failed(format!("it responds with {} {code} {message}", status.as_u16()), true))
        }
        _ => {
            let missing = code == "EntityNotFoundException";
            let status = match code {
                "EntityNotFoundException" => StatusCode::NOT_FOUND,
                "AlreadyExistsException" => StatusCode::CONFLICT,
                _ => status,
            };
            let code = if code.is_empty() { status.as_u16().to_string() } else { code.to_owned() };
            Ok(Err(ErrorResponse { url: endpoint.display_url.clone(), status, code, message, missing }))
        }
    }
}
