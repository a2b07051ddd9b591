//! Tokens of an issuer, asked for over HTTPS (RFC 6749, RFC 7523; KIP-768, KIP-1139, KIP-1258).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::StatusCode;
use hyper::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::assertion::Assertions;
use super::oauth_tls;
use crate::config::SaslOptions;
use crate::config::credentials::{Fetching, Token, TokenSource};
use crate::error::{Error, Result};
use crate::retry::backoff::Backoff;
use crate::secret::Secret;
use crate::security::http::{Answer, Client, Endpoint, Manner, Proxy};
use crate::security::redact::Veil;

const URL: &str = "sasl.oauthbearer.token.endpoint.url";
const BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The most of an answer that is read.
const LARGEST: usize = 1 << 20;
static MANNER: Manner = Manner {
    connect_option: "sasl.login.connect.timeout.ms",
    read_option: "sasl.login.read.timeout.ms",
    largest: LARGEST,
    too_large: |endpoint| {
        let text = format!("the answer has more than {LARGEST} bytes: is this a token endpoint?");
        Error::authentication(&endpoint.shown, text)
    },
    explained: oauth_tls::explained,
};

/// Who asks.
#[derive(Debug)]
enum Grant {
    /// A client with a secret.
    Secret { id: String, secret: Secret },
    /// A client that signs.
    Signed { id: Option<String>, assertions: Assertions },
    /// The one that an assertion speaks for.
    Bearer { assertions: Assertions },
}

/// One issuer, and who asks it.
#[derive(Debug)]
pub(super) struct Oidc {
    client: Client,
    grant: Grant,
    scope: Option<String>,
    urlencode: bool,
    backoff: Duration,
    backoff_max: Duration,
    /// Of the last attempt, until one succeeds.
    trouble: Mutex<Option<Error>>,
}

impl Oidc {
    /// # Errors
    /// The address, credentials or certificates cannot be.
    pub(super) fn new(url: &str, sasl: &SaslOptions) -> Result<Self> {
        let endpoint = Endpoint::secret(URL, url)?;
        let oauth = &sasl.oauth;
        let tls = endpoint.https.then(|| oauth_tls::of(oauth)).transpose()?;
        let proxy = Proxy::of(&endpoint, |name| std::env::var(name).ok())?;
        let assertions = Assertions::of(oauth, url)?;
        let missing = |text: &str| Error::configuration(format!("option {URL} needs {text}"));
        let id = oauth.client_id.clone();
        let grant = match (oauth.grant_type.as_deref(), assertions, &oauth.client_secret) {
            (Some("jwt-bearer"), Some(assertions), _) => Grant::Bearer { assertions },
            (Some("jwt-bearer"), None, _) => {
                return Err(missing(
                    "an assertion for sasl.oauthbearer.grant.type=jwt-bearer: option \
                     sasl.oauthbearer.assertion.private.key.file or sasl.oauthbearer.assertion.file",
                ));
            }
            (None, Some(assertions), None) if id.is_none() => Grant::Bearer { assertions },
            (_, Some(_), Some(_)) => {
                return Err(Error::configuration(
                    "options sasl.oauthbearer.client.credentials.client.secret and sasl.oauthbearer.assertion.* both say who \
                     asks for tokens: leave one of them out",
                ));
            }
            (_, Some(assertions), None) => Grant::Signed { id, assertions },
            (_, None, Some(secret)) => {
                let id = id.ok_or_else(|| missing("option sasl.oauthbearer.client.credentials.client.id"))?;
                Grant::Secret { id, secret: secret.clone() }
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
                manner: &MANNER,
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
            trouble: Mutex::default(),
        })
    }

    fn met(&self, trouble: Option<Error>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    fn fatal(&self, reason: impl Into<String>) -> Error {
        Error::authentication(&self.client.endpoint.shown, reason)
    }

    /// What is asked, and what of it may not be shown.
    async fn request(&self) -> Result<(HeaderMap, String, Vec<Secret>)> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let mut form: Vec<(&str, String)> = Vec::new();
        let name = &self.client.endpoint.shown;
        let mut secrets = Vec::new();
        match &self.grant {
            Grant::Secret { id, secret } => {
                let (id, text) = match self.urlencode {
                    true => (encoded(id), encoded(secret.reveal())),
                    false => (id.clone(), secret.reveal().to_owned()),
                };
                let basic = Secret::from(BASE64_STANDARD.encode(format!("{id}:{text}")));
                let mut value = HeaderValue::try_from(format!("Basic {}", basic.reveal()))
                    .map_err(|_| self.fatal("the client's id and secret cannot be sent"))?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
                secrets.extend([secret.clone(), encoded(secret.reveal()).into(), basic]);
                form.push(("grant_type", "client_credentials".to_owned()));
            }
            Grant::Signed { id, assertions } => {
                let assertion = assertions.next(name).await?;
                form.push(("grant_type", "client_credentials".to_owned()));
                form.push(("client_assertion_type", ASSERTION.to_owned()));
                form.push(("client_assertion", assertion.reveal().to_owned()));
                form.extend(id.clone().map(|id| ("client_id", id)));
                secrets.push(assertion);
            }
            Grant::Bearer { assertions } => {
                let assertion = assertions.next(name).await?;
                form.push(("grant_type", BEARER.to_owned()));
                form.push(("assertion", assertion.reveal().to_owned()));
                secrets.push(assertion);
            }
        }
        form.extend(self.scope.clone().map(|scope| ("scope", scope)));
        let body: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        Ok((headers, body.join("&"), secrets))
    }

    async fn ask(&self) -> Result<Token> {
        let (headers, body, secrets) = self.request().await?;
        let answer = self.client.post(headers, body).await?;
        self.read(&answer, &Veil::over(secrets))
    }

    fn read(&self, answer: &Answer, veil: &Veil) -> Result<Token> {
        let status = answer.status;
        if status.is_redirection() {
            let target = veil.show(answer.location.as_deref().unwrap_or("nowhere"));
            return Err(self.fatal(format!(
                "it answers {} and a redirect to {target}; secrets are not sent after redirects: set option {URL} to the \
                 address that answers itself",
                status.as_u16()
            )));
        }
        let json: Option<Value> = serde_json::from_slice(&answer.body).ok();
        if !status.is_success() {
            let reason = format!("it answers {}{}", status.as_u16(), told(json.as_ref(), answer, veil));
            let may_pass = status.is_server_error()
                || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
            let shown = &self.client.endpoint.shown;
            return Err(if may_pass { Error::connection(shown, reason) } else { self.fatal(reason) });
        }
        let Some(Value::Object(fields)) = json else {
            let text = told(None, answer, veil);
            return Err(self.fatal(format!("the answer is no JSON object{text}: is this a token endpoint?")));
        };
        // Java's client takes either.
        let token = ["access_token", "id_token"].iter().find_map(|name| fields.get(*name)?.as_str());
        let Some(token) = token else {
            let names: Vec<&str> = fields.keys().map(String::as_str).take(20).collect();
            let names = veil.show(&names.join(", "));
            return Err(self.fatal(format!("the answer has no access_token; it has {names}")));
        };
        let seconds = fields.get("expires_in").and_then(|life| life.as_u64().or_else(|| life.as_str()?.parse().ok()));
        let expires = seconds.and_then(|seconds| SystemTime::now().checked_add(Duration::from_secs(seconds)));
        Token::new(token.to_owned(), expires).map_err(|text| self.fatal(format!("the answer's access_token: {text}")))
    }
}

/// What an answer says of its reason, fit to be shown.
fn told(json: Option<&Value>, answer: &Answer, veil: &Veil) -> String {
    let field = |name| json?.get(name)?.as_str();
    match (field("error"), field("error_description")) {
        (Some(error), Some(text)) => format!(": {}: {}", veil.show(error), veil.show(text)),
        (Some(error), None) => format!(": {}", veil.show(error)),
        _ if answer.body.is_empty() => String::new(),
        _ => {
            let kind = veil.show(answer.kind.split(';').next().unwrap_or_default());
            let kind = if kind.is_empty() { "no content type".to_owned() } else { kind };
            format!(" ({kind}, {} bytes)", answer.body.len())
        }
    }
}

/// As forms have it (application/x-www-form-urlencoded).
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => encoded.push(char::from(byte)),
            b' ' => encoded.push('+'),
            byte => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

impl TokenSource for Oidc {
    fn name(&self) -> String {
        self.client.endpoint.shown.clone()
    }

    fn trouble(&self) -> Option<Error> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fetch(&self) -> Fetching<'_> {
        Box::pin(async {
            let mut backoff = Backoff::new(self.backoff, self.backoff_max);
            let end = Instant::now() + self.backoff_max;
            loop {
                let error = match self.ask().await {
                    Err(error) if error.retriable() => error,
                    done => {
                        self.met(None);
                        return done;
                    }
                };
                self.met(Some(error.clone()));
                let delay = backoff.next_delay().max(Duration::from_millis(10));
                if Instant::now() + delay >= end {
                    return Err(error);
                }
                tracing::debug!(%error, "no token yet");
                sleep(delay).await;
            }
        })
    }
}

#[cfg(test)]
#[path = "oidc_tests.rs"]
mod tests;
