//! Credentials of IAM Identity Center, with the token that `aws sso login` has stored.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use hyper::Method;
use hyper::header::HeaderMap;
use serde_json::Value;

use super::chain::failed;
use super::profiles::Profile;
use super::requests::{Environment, authentication, build, secret_header, send};
use super::signature::{hex, percent_encode};
use super::{Found, instant};
use crate::config::url::domain;
use crate::error::{Error, Result};
use crate::secret::Secret;
use crate::security::http::Endpoint;
use crate::security::sasl::file::read_text;

const LIMIT: Duration = Duration::from_secs(5);

/// Requests the credentials of the account and role of a profile.
pub(super) async fn credentials(environment: &Environment, profile: &Profile) -> Result<Found> {
    let session = profile.get("sso_session");
    if let (Some(name), None) = (session, &profile.session) {
        return Err(profile.error(format!("sso_session={name}: the section [sso-session {name}] does not exist")));
    }
    let setting = |name: &str| {
        let shared = profile.session.as_ref().and_then(|settings| settings.get(name)).map(String::as_str);
        shared.or(profile.get(name)).ok_or_else(|| profile.error(format!("its SSO settings lack {name}")))
    };
    let (start, region) = (setting("sso_start_url")?, setting("sso_region")?);
    let (account, role) = (setting("sso_account_id")?, setting("sso_role_name")?);
    let token = token(environment, profile, session.unwrap_or(start)).await?;

    let url = environment.service_url("SSO", || format!("https://portal.sso.{region}.{}", domain(region)));
    let endpoint = Endpoint::secret("AWS_ENDPOINT_URL_SSO", &url).map_err(authentication)?;
    let client = environment.client(endpoint, LIMIT)?;
    let mut headers = HeaderMap::new();
    secret_header(&mut headers, "x-amz-sso_bearer_token", token.reveal(), "the SSO token")?;
    let query = format!("role_name={}&account_id={}", percent_encode(role), percent_encode(account));
    let path = format!("/federation/credentials?{query}");
    let text = send(&client, Method::GET, &path, headers, String::new(), vec![token]).await?;

    let source = format!("profile {}: {}", profile.name, client.endpoint.display_url);
    let json: Option<Value> = serde_json::from_str(&text).ok();
    let found = json.as_ref().and_then(|json| json.get("roleCredentials"));
    let found = found.ok_or_else(|| failed(format!("{source}: it returns no roleCredentials")))?;
    let field = |name: &str| found.get(name).and_then(Value::as_str);
    let mut built = build(&source, field("accessKeyId"), field("secretAccessKey"), field("sessionToken"), None)?;
    let expires = found.get("expiration").and_then(Value::as_u64);
    built.expires = expires.and_then(|millis| UNIX_EPOCH.checked_add(Duration::from_millis(millis)));
    Ok(built)
}

/// Reads the token of a session from the cache of AWS's command line.
async fn token(environment: &Environment, profile: &Profile, key: &str) -> Result<Secret> {
    let login = format!("run aws sso login --profile {}", profile.name);
    let home = environment.home().ok_or_else(|| profile.error("HOME is not set, so no SSO token can be read"))?;
    let name = hex(digest(&SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes()).as_ref());
    let path = home.join(".aws").join("sso").join("cache").join(format!("{name}.json"));
    let shown = path.display().to_string();
    let read = tokio::task::spawn_blocking(move || read_text(&path)).await;
    let text = read.map_err(|_| Error::connection(super::NAME, "reading of the SSO token was cancelled"))?;
    let text =
        text.map_err(|error| profile.error(format!("the SSO token {shown} cannot be read ({error}): {login}")))?;
    let json: Option<Value> = serde_json::from_str(&text).ok();
    let field = |name: &str| json.as_ref().and_then(|json| json.get(name)?.as_str());
    let (token, expires) = (field("accessToken"), field("expiresAt").and_then(instant::parse));
    match (token, expires) {
        (Some(token), Some(expires)) if expires > SystemTime::now() => Ok(Secret::from(token.to_owned())),
        (Some(_), Some(_)) => Err(profile.error(format!("the SSO token has expired: {login}"))),
        _ => Err(profile.error(format!("{shown} has no accessToken or no expiresAt: {login}"))),
    }
}
