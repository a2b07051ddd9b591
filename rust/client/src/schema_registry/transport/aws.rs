//! Signed requests to AWS Glue, and its responses.

use std::time::SystemTime;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::{ErrorResponse, Responded, registry_error};
use crate::config::credentials::AwsCredentials;
use crate::error::{Error, Result};
use crate::security::aws::Scope;
use crate::security::http::{Endpoint, Response};

const SERVICE: &str = "glue";
const JSON: &str = "application/x-amz-json-1.1";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Adds the headers of a request to the operation `target`, with the signature.
pub(super) fn sign(
    headers: &mut HeaderMap,
    credentials: &AwsCredentials,
    region: &str,
    host: &str,
    target: &'static str,
    body: &str,
) -> Result<()> {
    let scope = Scope::new(SystemTime::now(), region, SERVICE);
    let mut signed = vec![("content-type", JSON), ("host", host), ("x-amz-date", &*scope.time)];
    if let Some(token) = &credentials.token {
        signed.push(("x-amz-security-token", token.reveal()));
    }
    signed.push(("x-amz-target", target));
    let authorization = scope.authorization(credentials, &signed, body.as_bytes());
    let invalid = |_| Error::authentication("AWS credentials", "they have characters that HTTP headers cannot have");
    let secret = |text: &str| {
        let mut value = HeaderValue::try_from(text).map_err(invalid)?;
        value.set_sensitive(true);
        Ok::<_, Error>(value)
    };
    headers.insert(AUTHORIZATION, secret(authorization.reveal())?);
    if let Some(token) = &credentials.token {
        headers.insert(TOKEN, secret(token.reveal())?);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(DATE, HeaderValue::try_from(scope.time.as_str()).map_err(invalid)?);
    headers.insert(TARGET, HeaderValue::from_static(target));
    Ok(())
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
