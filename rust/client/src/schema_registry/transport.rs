//! Sends requests to a schema registry, retries them, and tries all URLs of the registry.

mod aws;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

use crate::config::{RegistryLogin, RegistryOptions};
use crate::error::{Error, Result};
use crate::secret::Secret;
use crate::security::aws::CredentialSources;
use crate::security::http::{Client, Endpoint, Proxy, Response, ServerProfile};
use crate::security::redact::Redactor;
use crate::security::tls::{Tls, tls_errors};

/// Maximum size of a response, in bytes.
const LARGEST: usize = 16 << 20;
/// Maximum number of concurrent requests.
const MAX_CONCURRENT: usize = 16;
const JSON: HeaderValue = HeaderValue::from_static("application/vnd.schemaregistry.v1+json");
const ACCEPTED: HeaderValue = HeaderValue::from_static("application/vnd.schemaregistry.v1+json, application/json");

static PROFILE: ServerProfile = ServerProfile {
    connect_option: "http.connect.timeout.ms",
    read_option: "http.read.timeout.ms",
    max_body: LARGEST,
    too_large: |endpoint| {
        registry_error(endpoint, None, format!("the response has more than {LARGEST} bytes: is this a registry?"))
    },
    describe_tls_error: |error| tls_errors::handshake(error, &[], false, "").replace("the broker", "the registry"),
};

/// Error response of a registry.
#[derive(Debug)]
pub(super) struct ErrorResponse {
    pub(super) url: String,
    pub(super) status: StatusCode,
    /// Error code of the registry: a number that begins with the HTTP status, or the name of an error of AWS.
    pub(super) code: String,
    pub(super) message: String,
    /// True if the schema, subject or version does not exist.
    missing: bool,
}

impl ErrorResponse {
    /// Returns true if the schema, subject or version does not exist.
    pub(super) fn is_missing(&self) -> bool {
        self.missing
    }

    /// Converts the error response to an error of the client.
    pub(super) fn error(self, context: &str) -> Error {
        if self.is_missing() {
            return Error::SchemaNotFound(format!(
                "{context}: {} has none: {} ({})",
                self.url, self.message, self.code
            ));
        }
        let hint = if self.status == StatusCode::NOT_FOUND {
            ": is this its url, and is it new enough to know this request?"
        } else {
            ""
        };
        let reason = format!("{context}: it responds with {} {}{hint}", self.code, self.message);
        Error::Registry { url: self.url, reason, status: Some(self.status.as_u16()), retriable: false }
    }
}

/// Credentials of requests.
#[derive(Debug)]
enum Login {
    None,
    /// Value of the header Authorization.
    Header(HeaderValue),
    /// AWS credentials, which sign each request to AWS Glue in a region.
    Aws(CredentialSources, String),
}

/// Request to a registry.
#[derive(Debug, Clone, Copy)]
struct Request<'a> {
    method: &'a Method,
    path: &'a str,
    /// Operation of AWS Glue; `None` for a registry with Confluent's API.
    target: Option<&'static str>,
    body: &'a str,
}

/// Response of a registry, or its error response.
type Responded = std::result::Result<Value, ErrorResponse>;

/// HTTP transport of a registry client.
#[derive(Debug)]
pub(super) struct Transport {
    clients: Vec<Client>,
    /// Index of the HTTP client whose URL responded last.
    first: AtomicUsize,
    login: Login,
    redactor: Redactor,
    max_retries: u32,
    wait: Duration,
    wait_max: Duration,
    permits: Semaphore,
    closed: watch::Sender<bool>,
}

impl Transport {
    /// Creates a transport. This does not send any request.
    ///
    /// # Errors
    /// Fails if an address, the login or a certificate is invalid.
    pub(super) fn new(options: &RegistryOptions) -> Result<Self> {
        let name = if options.glue.is_some() { "endpoint_url" } else { "schema.registry.url" };
        let endpoints = options.urls.iter().map(|url| Endpoint::parse(name, url));
        let endpoints: Vec<Endpoint> = endpoints.collect::<Result<_>>()?;
        if endpoints.is_empty() {
            return Err(Error::configuration("a schema registry needs a url, such as http://localhost:8081"));
        }
        let https = endpoints.iter().any(|endpoint| endpoint.https);
        let tls = https.then(|| Tls::new(&options.tls)).transpose()?.map(Arc::new);
        let (login, secrets) = login(options)?;
        if matches!(login, Login::Header(_))
            && let Some(open) = endpoints.iter().find(|endpoint| !endpoint.https && !endpoint.is_local())
        {
            tracing::warn!("{} gets the credentials unencrypted: use https", open.display_url);
        }
        let client = |endpoint: Endpoint| {
            let proxy = Proxy::for_endpoint(&endpoint, |name| std::env::var(name).ok())?;
            let (connect_timeout, read_timeout) = (options.connect_timeout, options.read_timeout);
            Ok(Client { profile: &PROFILE, endpoint, tls: tls.clone(), proxy, connect_timeout, read_timeout })
        };
        Ok(Self {
            clients: endpoints.into_iter().map(client).collect::<Result<_>>()?,
            first: AtomicUsize::new(0),
            login,
            redactor: Redactor::from_secrets(secrets),
            max_retries: options.max_retries,
            wait: options.retry_wait,
            wait_max: options.retry_wait_max,
            permits: Semaphore::new(MAX_CONCURRENT),
            closed: watch::Sender::new(false),
        })
    }

    /// Cancels pending requests and makes later requests fail.
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Returns the URL that responded last.
    pub(super) fn url(&self) -> String {
        let client = self.clients.get(self.first.load(Ordering::Relaxed));
        client.map(|client| client.endpoint.display_url.clone()).unwrap_or_default()
    }

    /// Redacts secrets in a text that the registry sent.
    pub(super) fn shown(&self, text: &str) -> String {
        self.redactor.redact(text)
    }

    /// Sends a request and returns the registry's response or error response.
    ///
    /// # Errors
    /// Fails if none of the URLs responds as a registry, or if the registry rejects the login.
    pub(super) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Responded> {
        let body = body.map(Value::to_string).unwrap_or_default();
        self.send_until_closed(Request { method: &method, path, target: None, body: &body }).await
    }

    /// Sends a request of an operation of AWS Glue, and returns the response or error response.
    ///
    /// # Errors
    /// Fails if AWS Glue cannot be reached, or if it rejects the credentials.
    pub(super) async fn call(&self, target: &'static str, body: &Value) -> Result<Responded> {
        let body = body.to_string();
        self.send_until_closed(Request { method: &Method::POST, path: "/", target: Some(target), body: &body }).await
    }

    async fn send_until_closed(&self, request: Request<'_>) -> Result<Responded> {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(Error::closed("the schema registry's client")),
            done = self.send_with_retries(request) => done,
        }
    }

    async fn send_with_retries(&self, request: Request<'_>) -> Result<Responded> {
        let mut retries = 0;
        loop {
            let error = match self.try_each_url(request).await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            if !error.retriable() {
                return Err(error);
            }
            if retries >= self.max_retries {
                return Err(self.exhausted(error));
            }
            // The delay is completely random (full jitter), so that clients that failed together do not retry together.
            let bound = self.wait.saturating_mul(1 << retries.min(20)).min(self.wait_max);
            retries += 1;
            sleep(bound.mul_f64(fastrand::f64())).await;
        }
    }

    /// Tries each URL once, starting with the URL that responded last.
    async fn try_each_url(&self, request: Request<'_>) -> Result<Responded> {
        let first = self.first.load(Ordering::Relaxed);
        let mut failure = None;
        for index in (0..self.clients.len()).map(|step| (first + step) % self.clients.len()) {
            let Some(client) = self.clients.get(index) else { continue };
            match self.send_to(client, request).await {
                Ok(done) => {
                    self.first.store(index, Ordering::Relaxed);
                    return Ok(done);
                }
                // The other URLs are not tried, because they would receive the same credentials.
                Err(error @ Error::Registry { status: Some(401 | 403), .. }) => return Err(error),
                Err(error) => {
                    tracing::debug!("a request to a schema registry failed, and the next URL is tried: {error}");
                    // A retriable error replaces other errors, so that the request is retried.
                    failure = failure.filter(Error::retriable).or(Some(error));
                }
            }
        }
        Err(failure.unwrap_or_else(|| Error::configuration("a schema registry needs a url")))
    }

    async fn send_to(&self, client: &Client, request: Request<'_>) -> Result<Responded> {
        let Request { method, path, target, body } = request;
        let mut headers = HeaderMap::new();
        match (&self.login, target) {
            (Login::Aws(sources, region), Some(target)) => {
                let credentials = sources.find().await?;
                headers = aws::sign(&credentials, region, &client.endpoint.authority(), target, body)?;
            }
            (login, _) => {
                headers.insert(ACCEPT, ACCEPTED);
                if !body.is_empty() {
                    headers.insert(CONTENT_TYPE, JSON);
                }
                if let Login::Header(authorization) = login {
                    headers.insert(AUTHORIZATION, authorization.clone());
                }
            }
        }
        let base = client.endpoint.path.split('?').next().unwrap_or_default().trim_end_matches('/');
        let path = format!("{base}{path}");
        let _permit = self.permits.acquire().await;
        let response = client.request(method.clone(), &path, headers, body.to_owned()).await;
        let response = response.map_err(from_connection_error)?;
        if target.is_some() {
            return aws::read(&client.endpoint, &response, |text| self.shown(text));
        }
        self.read(&client.endpoint, &response)
    }

    fn read(&self, endpoint: &Endpoint, response: &Response) -> Result<Responded> {
        let status = response.status;
        let json: Option<Value> = serde_json::from_slice(&response.body).ok();
        if status.is_success() {
            let not_json = || {
                registry_error(
                    endpoint,
                    Some(status),
                    "the response is not JSON: is this the url of a registry?".to_owned(),
                )
            };
            return json.map(Ok).ok_or_else(not_json);
        }
        if status.is_redirection() {
            let target = self.shown(response.location.as_deref().unwrap_or("nowhere"));
            let text = format!("it redirects ({}) to {target}: pass that url", status.as_u16());
            return Err(registry_error(endpoint, Some(status), text));
        }
        let message = json.as_ref().and_then(|json| json.get("message")?.as_str());
        let message = self.shown(message.or(status.canonical_reason()).unwrap_or_default());
        let code = json.as_ref().and_then(|json| json.get("error_code")?.as_i64());
        let failed = |reason: String, retriable| Error::Registry {
            url: endpoint.display_url.clone(),
            reason,
            status: Some(status.as_u16()),
            retriable,
        };
        match status {
            StatusCode::UNAUTHORIZED => Err(failed(format!("it rejects the login (401 {message}): check auth"), false)),
            StatusCode::FORBIDDEN => {
                Err(failed(format!("it does not allow this (403 {message}): this login needs more rights"), false))
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Err(failed(format!("it responds with {} {message}", status.as_u16()), true))
            }
            _ if status.is_server_error() => {
                Err(failed(format!("it responds with {} {message}", status.as_u16()), true))
            }
            _ => {
                let code = code.unwrap_or_else(|| status.as_u16().into());
                // Missing schemas, subjects and versions have codes such as 40403, and an unknown path has the code 404.
                let missing = status == StatusCode::NOT_FOUND && code != 404;
                let (url, code) = (endpoint.display_url.clone(), code.to_string());
                Ok(Err(ErrorResponse { url, status, code, message, missing }))
            }
        }
    }

    fn exhausted(&self, error: Error) -> Error {
        let Error::Registry { url, reason, status, retriable } = error else { return error };
        let tries = self.max_retries + 1;
        let tries = if tries == 1 { "1 attempt".to_owned() } else { format!("{tries} attempts") };
        let urls = match self.clients.len() {
            1 => String::new(),
            several => format!(" at each of {several} urls"),
        };
        let reason = format!("{reason} (the last of {tries}{urls}): check that the registry runs and can be reached");
        Error::Registry { url, reason, status, retriable }
    }
}

fn registry_error(endpoint: &Endpoint, status: Option<StatusCode>, reason: String) -> Error {
    let status = status.map(|status| status.as_u16());
    Error::Registry { url: endpoint.display_url.clone(), reason, status, retriable: false }
}

fn from_connection_error(error: Error) -> Error {
    match error {
        Error::Connection { address, reason } => {
            Error::Registry { url: address, reason, status: None, retriable: true }
        }
        other => other,
    }
}

/// Returns the login and the secrets to redact.
fn login(options: &RegistryOptions) -> Result<(Login, Vec<Secret>)> {
    if let Some(glue) = &options.glue {
        let sources = CredentialSources::new(&glue.aws);
        return Ok((Login::Aws(sources, glue.region.clone()), Vec::new()));
    }
    let (text, mut secrets) = match &options.login {
        RegistryLogin::None => return Ok((Login::None, Vec::new())),
        RegistryLogin::Basic(user) => {
            let encoded = Secret::from(BASE64_STANDARD.encode(user.reveal()));
            let password = user.reveal().split_once(':').map_or("", |(_, password)| password);
            (Secret::from(format!("Basic {}", encoded.reveal())), vec![Secret::from(password.to_owned()), encoded])
        }
        RegistryLogin::Bearer(token) => (Secret::from(format!("Bearer {}", token.reveal())), vec![token.clone()]),
    };
    let value = HeaderValue::try_from(text.reveal());
    let mut value = value.map_err(|_| Error::configuration("the registry's name, password or token cannot be sent"))?;
    value.set_sensitive(true);
    secrets.push(text);
    Ok((Login::Header(value), secrets))
}
