//! Tokens from an issuer, requested over HTTPS (RFC 6749, RFC 7523; KIP-768, KIP-1139, KIP-1258).

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::StatusCode;
use hyper::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use samsarrow_wire::sync::lock;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::assertion::Assertions;
use super::oauth_tls;
use crate::config::SaslOptions;
use crate::config::credentials::{Fetching, Token, TokenSource};
use crate::error::{Error, Result};
use crate::retry::backoff::Backoff;
use crate::secret::Secret;
use crate::security::http::{Client, Endpoint, Proxy, Response, ServerProfile};
use crate::security::redact::Redactor;

const URL: &str = "sasl.oauthbearer.token.endpoint.url";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Maximum size of a response body, in bytes.
const MAX_BODY: usize = 1 << 20;
static PROFILE: ServerProfile = ServerProfile {
    connect_option: "sasl.login.connect.timeout.ms",
    read_option: "sasl.login.read.timeout.ms",
    max_body: MAX_BODY,
    too_large: |endpoint| {
        let text = format!("the response has more than {MAX_BODY} bytes: is this a token endpoint?");
        Error::authentication(&endpoint.display_url, text)
    },
    describe_tls_error: oauth_tls::describe_tls_error,
};

/// OAuth grant of token requests.
#[derive(Debug)]
enum Grant {
    /// Client credentials grant, authenticated with a secret.
    ClientSecret { id: String, secret: Secret },
    /// Client credentials grant, authenticated with a signed assertion.
    ClientAssertion { id: Option<String>, assertions: Assertions },
    /// JWT bearer grant: the token is issued for the subject of an assertion.
    JwtBearer { assertions: Assertions },
}

/// A token issuer, and the grant to use.
#[derive(Debug)]
pub(super) struct Oidc {
    client: Client,
    grant: Grant,
    scope: Option<String>,
    urlencode: bool,
    backoff: Duration,
    backoff_max: Duration,
    /// Error of the last request; cleared when a request succeeds.
    last_error: Mutex<Option<Error>>,
}

impl Oidc {
    /// # Errors
    /// Fails if the URL, the credentials or the certificates are invalid.
    pub(super) fn new(url: &str, sasl: &SaslOptions) -> Result<Self> {
        let endpoint = Endpoint::secret(URL, url)?;
        let oauth = &sasl.oauth;
        let tls = endpoint.https.then(|| oauth_tls::issuer_tls(oauth)).transpose()?;
        let proxy = Proxy::for_endpoint(&endpoint, |name| std::env::var(name).ok())?;
        let assertions = Assertions::from_options(oauth, url)?;
        let missing = |text: &str| Error::configuration(format!("option {URL} needs {text}"));
        let id = oauth.client_id.clone();
        let grant = match (oauth.grant_type.as_deref(), assertions, &oauth.client_secret) {
            (Some("jwt-bearer"), Some(assertions), _) => Grant::JwtBearer { assertions },
            (Some("jwt-bearer"), None, _) => {
                return Err(missing(
                    "an assertion for sasl.oauthbearer.grant.type=jwt-bearer: option \
                     sasl.oauthbearer.assertion.private.key.file or sasl.oauthbearer.assertion.file",
                ));
            }
            (None, Some(assertions), None) if id.is_none() => Grant::JwtBearer { assertions },
            (_, Some(_), Some(_)) => {
                return Err(Error::configuration(
                    "options sasl.oauthbearer.client.credentials.client.secret and sasl.oauthbearer.assertion.* both say who \
                     asks for tokens: leave one of them out",
                ));
            }
            (_, Some(assertions), None) => Grant::ClientAssertion { id, assertions },
            (_, None, Some(secret)) => {
                let id = id.ok_or_else(|| missing("option sasl.oauthbearer.client.credentials.client.id"))?;
                Grant::ClientSecret { id, secret: secret.clone() }
            }
            (_, None, None) => {
                return Err(missing(
                    "options sasl.oauthbearer.client.credentials.client.id and .client.secret, or an assertion \
                     (sasl.oauthbearer.assertion.*)",
                ));
            }
        };
        Ok(Self {
            client: Client {
                profile: &PROFILE,
                endpoint,
                tls,
                proxy,
                connect_timeout: sasl.connect_timeout,
                read_timeout: sasl.read_timeout,
            },
            grant,
            scope: oauth.scope.clone(),
            urlencode: oauth.header_urlencode,
            backoff: sasl.retry_backoff,
            backoff_max: sasl.retry_backoff_max,
            last_error: Mutex::default(),
        })
    }

    fn set_last_error(&self, last_error: Option<Error>) {
        *lock(&self.last_error) = last_error;
    }

    fn fatal(&self, reason: impl Into<String>) -> Error {
        Error::authentication(&self.client.endpoint.display_url, reason)
    }

    /// Builds a token request. Returns its headers, its body and the secrets to redact.
    async fn build_request(&self) -> Result<(HeaderMap, String, Vec<Secret>)> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let mut form: Vec<(&str, String)> = Vec::new();
        let name = &self.client.endpoint.display_url;
        let mut secrets = Vec::new();
        match &self.grant {
            Grant::ClientSecret { id, secret } => {
                let (id, text) = match self.urlencode {
                    true => (form_encode(id), form_encode(secret.reveal())),
                    false => (id.clone(), secret.reveal().to_owned()),
                };
                let basic = Secret::from(BASE64_STANDARD.encode(format!("{id}:{text}")));
                let mut value = HeaderValue::try_from(format!("Basic {}", basic.reveal()))
                    .map_err(|_| self.fatal("the client's id and secret cannot be sent"))?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
                secrets.extend([secret.clone(), form_encode(secret.reveal()).into(), basic]);
                form.push(("grant_type", "client_credentials".to_owned()));
            }
            Grant::ClientAssertion { id, assertions } => {
                let assertion = assertions.obtain(name).await?;
                form.push(("grant_type", "client_credentials".to_owned()));
                form.push(("client_assertion_type", CLIENT_ASSERTION.to_owned()));
                form.push(("client_assertion", assertion.reveal().to_owned()));
                form.extend(id.clone().map(|id| ("client_id", id)));
                secrets.push(assertion);
            }
            Grant::JwtBearer { assertions } => {
                let assertion = assertions.obtain(name).await?;
                form.push(("grant_type", JWT_BEARER.to_owned()));
                form.push(("assertion", assertion.reveal().to_owned()));
                secrets.push(assertion);
            }
        }
        form.extend(self.scope.clone().map(|scope| ("scope", scope)));
        let body: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", form_encode(value))).collect();
        Ok((headers, body.join("&"), secrets))
    }

    async fn request_token(&self) -> Result<Token> {
        let (headers, body, secrets) = self.build_request().await?;
        let response = self.client.post(headers, body).await?;
        self.read(&response, &Redactor::from_secrets(secrets))
    }

    fn read(&self, response: &Response, redactor: &Redactor) -> Result<Token> {
        let status = response.status;
        if status.is_redirection() {
            let target = redactor.redact(response.location.as_deref().unwrap_or("nowhere"));
            return Err(self.fatal(format!(
                "it responds with {} and a redirect to {target}; secrets are not sent to a redirect's target: set option {URL} to \
                 the final address",
                status.as_u16()
            )));
        }
        let json: Option<Value> = serde_json::from_slice(&response.body).ok();
        if !status.is_success() {
            let reason =
                format!("it responds with {}{}", status.as_u16(), error_details(json.as_ref(), response, redactor));
            let retriable = status.is_server_error()
                || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
            let url = &self.client.endpoint.display_url;
            return Err(if retriable { Error::connection(url, reason) } else { self.fatal(reason) });
        }
        let Some(Value::Object(fields)) = json else {
            let text = error_details(None, response, redactor);
            return Err(self.fatal(format!("the response is not a JSON object{text}: is this a token endpoint?")));
        };
        // As in Java's client, the token may be in either of these fields.
        let token = ["access_token", "id_token"].iter().find_map(|name| fields.get(*name)?.as_str());
        let Some(token) = token else {
            let names: Vec<&str> = fields.keys().map(String::as_str).take(20).collect();
            let names = redactor.redact(&names.join(", "));
            return Err(self.fatal(format!("the response has no access_token; it has {names}")));
        };
        let seconds = fields.get("expires_in").and_then(|life| life.as_u64().or_else(|| life.as_str()?.parse().ok()));
        let expires = seconds.and_then(|seconds| SystemTime::now().checked_add(Duration::from_secs(seconds)));
        Token::new(token.to_owned(), expires)
            .map_err(|text| self.fatal(format!("access_token of the response: {text}")))
    }
}

/// Returns the reason in an error response, with secrets redacted.
fn error_details(json: Option<&Value>, response: &Response, redactor: &Redactor) -> String {
    let field = |name| json?.get(name)?.as_str();
    match (field("error"), field("error_description")) {
        (Some(error), Some(text)) => format!(": {}: {}", redactor.redact(error), redactor.redact(text)),
        (Some(error), None) => format!(": {}", redactor.redact(error)),
        _ if response.body.is_empty() => String::new(),
        _ => {
            let content_type = redactor.redact(response.content_type.split(';').next().unwrap_or_default());
            let content_type = if content_type.is_empty() { "no content type".to_owned() } else { content_type };
            format!(" ({content_type}, {} bytes)", response.body.len())
        }
    }
}

/// Encodes text for a form (application/x-www-form-urlencoded).
fn form_encode(text: &str) -> String {
    let mut form = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => form.push(char::from(byte)),
            b' ' => form.push('+'),
            byte => form += &format!("%{byte:02X}"),
        }
    }
    form
}

impl TokenSource for Oidc {
    fn name(&self) -> String {
        self.client.endpoint.display_url.clone()
    }

    fn last_error(&self) -> Option<Error> {
        lock(&self.last_error).clone()
    }

    fn fetch(&self) -> Fetching<'_> {
        Box::pin(async {
            let mut backoff = Backoff::new(self.backoff, self.backoff_max);
            let end = Instant::now() + self.backoff_max;
            loop {
                let error = match self.request_token().await {
                    Err(error) if error.retriable() => error,
                    result => {
                        self.set_last_error(None);
                        return result;
                    }
                };
                self.set_last_error(Some(error.clone()));
                let delay = backoff.next_delay().max(Duration::from_millis(10));
                if Instant::now() + delay >= end {
                    return Err(error);
                }
                tracing::debug!(retry_after = ?delay, "the token request failed and is repeated: {error}");
                sleep(delay).await;
            }
        })
    }
}

#[cfg(test)]
#[path = "oidc_tests.rs"]
mod tests;
