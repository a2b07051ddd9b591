//! HTTP requests that look up credentials, and the environment that configures them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::chain::failed;
use super::{AwsCredentials, Found, NAME, instant};
use crate::config::TlsOptions;
use crate::error::{Error, Result};
use crate::secret::Secret;
use crate::security::http::{Client, Endpoint, Proxy, Response, ServerProfile};
use crate::security::redact::Redactor;
use crate::security::tls::{Tls, tls_errors};

/// Maximum size of a response, in bytes.
const MAX_BODY: usize = 1 << 20;

static PROFILE: ServerProfile = ServerProfile {
    connect_option: "timeout of AWS credentials",
    read_option: "timeout of AWS credentials",
    max_body: MAX_BODY,
    too_large: |endpoint| {
        Error::authentication(&endpoint.display_url, format!("the response has more than {MAX_BODY} bytes"))
    },
    describe_tls_error: |error| {
        let text = tls_errors::handshake(error, &[], false, "").replace("the broker", "the server");
        format!("{text} (AWS_CA_BUNDLE names a file of trusted certificates)")
    },
};

/// Returns the value of an environment variable.
type Get = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Environment variables.
#[derive(Clone)]
pub(super) struct Environment(Arc<Get>);

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Environment")
    }
}

impl Environment {
    pub(super) fn new(get: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(get))
    }

    /// Returns the value of a variable that is set and not blank.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.trim().is_empty())
    }

    /// Returns the home directory.
    pub(super) fn home(&self) -> Option<PathBuf> {
        self.get("HOME").or_else(|| self.get("USERPROFILE")).map(PathBuf::from)
    }

    /// Returns true if a variable is set to `true`.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns the URL of a service: that of an environment variable, or the service's own.
    pub(super) fn service_url(&self, service: &str, default: impl FnOnce() -> String) -> String {
        if self.flag("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") {
            return default();
        }
        let name = format!("AWS_ENDPOINT_URL_{service}");
        self.get(&name).or_else(|| self.get("AWS_ENDPOINT_URL")).unwrap_or_else(default)
    }

    /// Creates a client of an endpoint. `limit` is the maximum time to connect, and to wait for the response.
    pub(super) fn client(&self, endpoint: Endpoint, limit: Duration) -> Result<Client> {
        let options = TlsOptions {
            truststore_location: self.get("AWS_CA_BUNDLE"),
            check_hostname: true,
            verify: true,
            ..TlsOptions::default()
        };
        let tls =
            endpoint.https.then(|| Tls::new(&options).map(Arc::new)).transpose().map_err(|error| match error {
                Error::Configuration(text) => failed(text.replace("option ssl.truststore.location", "AWS_CA_BUNDLE")),
                other => other,
            })?;
        let proxy = Proxy::for_endpoint(&endpoint, |name| self.get(name)).map_err(authentication)?;
        Ok(Client { profile: &PROFILE, endpoint, tls, proxy, connect_timeout: limit, read_timeout: limit })
    }
}

/// Converts a configuration error to an error of the login, since its cause is outside of the client's options.
pub(super) fn authentication(error: Error) -> Error {
    match error {
        Error::Configuration(text) => failed(text),
        other => other,
    }
}

/// Codes of throttled requests, which STS sends with status 400, and of failures that a later attempt may not have.
const RETRIABLE: [&str; 4] = ["Throttling", "ThrottlingException", "RequestLimitExceeded", "IDPCommunicationError"];

/// Sends a request and returns the body of a successful response, or `None` if the server does not have the resource
/// or does not serve it.
pub(super) async fn send_optional(
    client: &Client,
    method: Method,
    path: &str,
    headers: HeaderMap,
    secrets: Vec<Secret>,
) -> Result<Option<String>> {
    let response = client.request(method, path, headers, String::new()).await?;
    if matches!(response.status, StatusCode::NOT_FOUND | StatusCode::FORBIDDEN) {
        return Ok(None);
    }
    check(client, &response, &Redactor::from_secrets(secrets))?;
    Ok(Some(String::from_utf8_lossy(&response.body).into_owned()))
}

/// Sends a request and returns the body of a successful response.
pub(super) async fn send(
    client: &Client,
    method: Method,
    path: &str,
    headers: HeaderMap,
    body: String,
    secrets: Vec<Secret>,
) -> Result<String> {
    let response = client.request(method, path, headers, body).await?;
    check(client, &response, &Redactor::from_secrets(secrets))?;
    Ok(String::from_utf8_lossy(&response.body).into_owned())
}

fn check(client: &Client, response: &Response, redactor: &Redactor) -> Result<()> {
    let status = response.status;
    if status.is_success() {
        return Ok(());
    }
    let body = String::from_utf8_lossy(&response.body);
    let json: Option<Value> = serde_json::from_str(&body).ok();
    let json = json.as_ref();
    let field = |names: [&str; 2]| {
        names.iter().find_map(|name| {
            json.and_then(|json| json.get(name)?.as_str()).map(str::to_owned).or_else(|| xml_text(&body, name))
        })
    };
    let code = field(["Code", "code"]);
    let parts = [code.clone(), field(["Message", "message"])];
    let details: Vec<String> = parts.into_iter().flatten().map(|text| redactor.redact(&text)).collect();
    let details = if details.is_empty() { String::new() } else { format!(": {}", details.join(": ")) };
    let reason = format!("{} responds with {}{details}", client.endpoint.display_url, status.as_u16());
    let retriable = status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
        || code.is_some_and(|code| RETRIABLE.contains(&&*code));
    Err(if retriable { Error::connection(NAME, reason) } else { failed(reason) })
}

/// Adds a header that contains a secret.
pub(super) fn secret_header(headers: &mut HeaderMap, name: &'static str, value: &str, subject: &str) -> Result<()> {
    let value = HeaderValue::try_from(value);
    let mut value = value.map_err(|_| failed(format!("{subject} has characters that HTTP headers cannot have")))?;
    value.set_sensitive(true);
    headers.insert(HeaderName::from_static(name), value);
    Ok(())
}

/// Returns the text of the first element with this name, without references to characters.
pub(super) fn xml_text(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    Some(text.replace("&amp;", "&"))
}

/// Parses credentials in a JSON object with the names of containers, instances and processes.
pub(super) fn parse_json(source: &str, text: &str) -> Result<Found> {
    let json: Option<Value> = serde_json::from_str(text).ok();
    let json = json.filter(Value::is_object).ok_or_else(|| failed(format!("{source}: it returns no JSON object")))?;
    let field = |name: &str| json.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(code) = field("Code").filter(|code| *code != "Success") {
        return Err(failed(format!("{source}: {code}: {}", field("Message").unwrap_or("no reason"))));
    }
    build(
        source,
        field("AccessKeyId"),
        field("SecretAccessKey"),
        field("SessionToken").or(field("Token")),
        field("Expiration"),
    )
}

/// Checks that credentials are complete.
pub(super) fn build(
    source: &str,
    key_id: Option<&str>,
    secret: Option<&str>,
    token: Option<&str>,
    expires: Option<&str>,
) -> Result<Found> {
    let missing = |name: &str| failed(format!("{source}: it returns no {name}"));
    let key_id = key_id.ok_or_else(|| missing("AccessKeyId"))?.to_owned();
    let secret = secret.ok_or_else(|| missing("SecretAccessKey"))?.to_owned().into();
    let expiry = |text: &str| {
        instant::parse(text).ok_or_else(|| failed(format!("{source}: Expiration is not a time in ISO 8601: {text:?}")))
    };
    let token = token.map(|token| token.to_owned().into());
    Ok(Found { credentials: AwsCredentials { key_id, secret, token }, expires: expires.map(expiry).transpose()? })
}
