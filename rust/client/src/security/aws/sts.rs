//! Credentials of roles, from AWS Security Token Service.

use std::path::Path;
use std::time::{Duration, SystemTime};

use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use super::chain::failed;
use super::requests::{Environment, authentication, build, send, xml_text};
use super::signature::{Scope, percent_encode, signed_headers};
use super::{AwsCredentials, Found};
use crate::config::url::{domain, region_of_environment};
use crate::error::{Error, Result};
use crate::secret::Secret;
use crate::security::http::Endpoint;
use crate::security::sasl::file::read_trimmed;

const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
const LIMIT: Duration = Duration::from_secs(5);
/// Name of sessions that have no name of their own.
const SESSION: &str = "samsarrow";
/// Region of the global endpoint.
const GLOBAL: &str = "us-east-1";

/// A role to assume.
#[derive(Debug, Clone, Default)]
pub(super) struct Role {
    pub(super) arn: String,
    pub(super) session: Option<String>,
    pub(super) external_id: Option<String>,
    /// Lifetime of the credentials, in seconds.
    pub(super) duration: Option<u32>,
    /// Region of the service, before that of the environment.
    pub(super) region: Option<String>,
}

/// Assumes a role with other credentials. `region` is that of the profile.
pub(super) async fn assume(
    environment: &Environment,
    role: &Role,
    region: Option<String>,
    credentials: &AwsCredentials,
) -> Result<Found> {
    request(environment, role, region, "AssumeRole", Some(credentials), None).await
}

/// Assumes a role with the token in a file.
pub(super) async fn assume_with_web_identity(
    environment: &Environment,
    role: &Role,
    region: Option<String>,
    file: &str,
) -> Result<Found> {
    let token = read_trimmed("AWS credentials: web identity", Path::new(file)).await?;
    request(environment, role, region, "AssumeRoleWithWebIdentity", None, Some(token.into())).await
}

async fn request(
    environment: &Environment,
    role: &Role,
    region: Option<String>,
    action: &str,
    credentials: Option<&AwsCredentials>,
    token: Option<Secret>,
) -> Result<Found> {
    let region = role.region.clone().or_else(|| region_of_environment(|name| environment.get(name))).or(region);
    let is_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if let Some(region) = region.as_ref().filter(|region| !region.bytes().all(is_label)) {
        return Err(failed(format!("role {}: {region:?} is not the name of a region", role.arn)));
    }
    let url = environment.service_url("STS", || match &region {
        Some(region) => format!("https://sts.{region}.{}", domain(region)),
        None => "https://sts.amazonaws.com".to_owned(),
    });
    let endpoint = Endpoint::secret("AWS_ENDPOINT_URL_STS", &url).map_err(authentication)?;
    let client = environment.client(endpoint, LIMIT)?;

    let mut form = vec![
        ("Action", action.to_owned()),
        ("Version", "2011-06-15".to_owned()),
        ("RoleArn", role.arn.clone()),
        ("RoleSessionName", role.session.clone().unwrap_or_else(|| SESSION.to_owned())),
    ];
    form.extend(role.external_id.clone().map(|id| ("ExternalId", id)));
    form.extend(role.duration.map(|seconds| ("DurationSeconds", seconds.to_string())));
    form.extend(token.iter().map(|token| ("WebIdentityToken", token.reveal().to_owned())));
    let pairs: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
    let body = pairs.join("&");

    let headers = match credentials {
        Some(credentials) => {
            let scope = Scope::new(SystemTime::now(), region.as_deref().unwrap_or(GLOBAL), "sts");
            signed_headers(&scope, credentials, &client.endpoint.authority(), FORM, None, &body)?
        }
        None => HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(FORM))]),
    };
    let secrets = token.into_iter().chain(credentials.and_then(|credentials| credentials.token.clone())).collect();
    let response = send(&client, Method::POST, "/", headers, body, secrets).await;
    let xml = response.map_err(|error| with_role(error, role))?;
    let text = |name: &str| xml_text(&xml, name).filter(|text| !text.is_empty());
    let (key_id, secret) = (text("AccessKeyId"), text("SecretAccessKey"));
    let (token, expires) = (text("SessionToken"), text("Expiration"));
    let source = format!("role {} of {}", role.arn, client.endpoint.display_url);
    build(&source, key_id.as_deref(), secret.as_deref(), token.as_deref(), expires.as_deref())
}

/// Adds the role to an error.
fn with_role(error: Error, role: &Role) -> Error {
    let text = |reason: String| format!("role {}: {reason}", role.arn);
    match error {
        Error::Authentication { address, reason, cause } => {
            Error::Authentication { address, reason: text(reason), cause }
        }
        Error::Connection { address, reason } => Error::Connection { address, reason: text(reason) },
        other => other,
    }
}
