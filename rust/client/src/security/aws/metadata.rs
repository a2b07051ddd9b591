//! Credentials of containers (ECS, EKS Pod Identity) and of instances (EC2, IMDSv2).

use std::path::Path;
use std::time::Duration;

use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use super::Found;
use super::chain::failed;
use super::requests::{Environment, authentication, parse_json, secret_header, send, send_optional};
use crate::error::{Error, Result};
use crate::secret::Secret;
use crate::security::http::Endpoint;
use crate::security::sasl::file::read_trimmed;

const CONTAINER: &str = "http://169.254.170.2";
/// Hosts of containers' credentials that need no encryption: ECS, and the agent of EKS Pod Identity.
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
const CONTAINER_LIMIT: Duration = Duration::from_secs(2);

const INSTANCE: &str = "http://169.254.169.254";
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
/// Machines outside of EC2 do not respond, so that a longer limit would delay the error.
const INSTANCE_LIMIT: Duration = Duration::from_secs(1);
const LIFETIME: (&str, &str) = ("x-aws-ec2-metadata-token-ttl-seconds", "21600");

/// A source that is not available, and the reason.
type Available = std::result::Result<Found, String>;

/// Requests the credentials of the container, if the environment names an endpoint.
pub(super) async fn container(environment: &Environment) -> Result<Available> {
    const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    let (name, url) = match (environment.get(RELATIVE), environment.get(FULL)) {
        (Some(path), _) => (RELATIVE, format!("{CONTAINER}{path}")),
        (None, Some(url)) => (FULL, url),
        (None, None) => return Ok(Err(format!("{RELATIVE} and {FULL} are not set"))),
    };
    let endpoint = Endpoint::parse(name, &url).map_err(authentication)?;
    if !endpoint.https && !endpoint.is_local() && !CONTAINER_HOSTS.contains(&&*endpoint.host) {
        return Err(failed(format!(
            "{name} is http://{}: it must be https://, or an address of this machine, of ECS or of EKS",
            endpoint.host
        )));
    }
    let (mut headers, mut secrets) = (HeaderMap::new(), Vec::new());
    let token = match environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(file) => Some(read_trimmed(super::NAME, Path::new(&file)).await?),
        None => environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    };
    if let Some(token) = token {
        secret_header(&mut headers, "authorization", &token, "the container's authorization token")?;
        secrets.push(Secret::from(token));
    }
    let client = environment.client(endpoint, CONTAINER_LIMIT)?;
    let text = send(&client, Method::GET, &client.endpoint.path, headers, String::new(), secrets).await?;
    parse_json(&client.endpoint.display_url, &text).map(Ok)
}

/// Requests the credentials of the instance's role by IMDSv2.
pub(super) async fn instance(environment: &Environment) -> Result<Available> {
    if environment.flag("AWS_EC2_METADATA_DISABLED") {
        return Ok(Err("AWS_EC2_METADATA_DISABLED is true".to_owned()));
    }
    const URL: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
    let is_ipv6 = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    let is_ipv6 = is_ipv6.is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6"));
    let default = if is_ipv6 { "http://[fd00:ec2::254]" } else { INSTANCE };
    let url = environment.get(URL).unwrap_or_else(|| default.to_owned());
    let endpoint = Endpoint::parse(URL, &url).map_err(authentication)?;
    let client = environment.client(endpoint, INSTANCE_LIMIT)?;
    let base = client.endpoint.path.trim_end_matches('/').to_owned();

    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_static(LIFETIME.0), HeaderValue::from_static(LIFETIME.1));
    let path = format!("{base}/latest/api/token");
    let token = match send_optional(&client, Method::PUT, &path, headers, Vec::new()).await {
        Ok(Some(token)) => token.trim().to_owned(),
        Ok(None) => return Ok(Err(format!("{} does not serve IMDSv2", client.endpoint.display_url))),
        Err(Error::Connection { reason, .. }) => return Ok(Err(format!("{}: {reason}", client.endpoint.display_url))),
        Err(error) => return Err(error),
    };
    let get = async |path: String| {
        let mut headers = HeaderMap::new();
        secret_header(&mut headers, "x-aws-ec2-metadata-token", &token, "the token of the instance metadata")?;
        send_optional(&client, Method::GET, &path, headers, vec![Secret::from(token.clone())]).await
    };
    let roles = get(format!("{base}{ROLES}")).await?.unwrap_or_default();
    let role = roles.lines().next().map(str::trim).filter(|role| !role.is_empty());
    let Some(role) = role else { return Ok(Err("the instance has no role".to_owned())) };
    let text = get(format!("{base}{ROLES}{role}")).await?;
    let Some(text) = text else { return Ok(Err(format!("role {role} of the instance has no credentials"))) };
    parse_json(&format!("role {role} of the instance"), &text).map(Ok)
}
