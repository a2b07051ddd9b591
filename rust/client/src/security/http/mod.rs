//! Sends HTTP requests with limits on time and size, through the proxy set in the environment. Redirects are not
//! followed.

mod endpoint;
mod proxy;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use hyper::http::request::Builder;
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::error::{Error, Result};
use crate::security::tls::Tls;

pub(crate) use endpoint::Endpoint;
pub(crate) use proxy::Proxy;

/// Maximum size of response headers, in bytes.
const MAX_HEADER_SIZE: usize = 64 << 10;

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) content_type: String,
    pub(crate) location: Option<String>,
    pub(crate) body: Bytes,
}

/// A bidirectional stream: TCP, TLS over TCP, or TLS within a proxy's TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Option names, limits and error texts for a kind of HTTP server.
#[derive(Debug)]
pub(crate) struct ServerProfile {
    /// Name of the option that sets the connect timeout.
    pub(crate) connect_option: &'static str,
    /// Name of the option that sets the read timeout.
    pub(crate) read_option: &'static str,
    /// Maximum size of a response body, in bytes.
    pub(crate) max_body: usize,
    /// Creates the error for a response body that exceeds `max_body`.
    pub(crate) too_large: fn(&Endpoint) -> Error,
    /// Describes a failed TLS handshake.
    pub(crate) describe_tls_error: fn(&rustls::Error) -> String,
}

/// Client of a single HTTP server.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) profile: &'static ServerProfile,
    pub(crate) endpoint: Endpoint,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) connect_timeout: Duration,
    pub(crate) read_timeout: Duration,
}

impl Client {
    /// Sends a POST request to the path of the endpoint.
    ///
    /// # Errors
    /// Fails like [`Self::request`].
    pub(crate) async fn post(&self, headers: HeaderMap, body: String) -> Result<Response> {
        self.request(Method::POST, &self.endpoint.path, headers, body).await
    }

    /// Sends a request.
    ///
    /// # Errors
    /// Fails with [`Error::Connection`] if another attempt may succeed, otherwise [`Error::Tls`] or
    /// [`Error::Authentication`].
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: String,
    ) -> Result<Response> {
        let timeout_error = |problem: &str, limit: Duration, option: &str| {
            self.connection_error(format!("{problem} within {} ms ({option})", limit.as_millis()))
        };
        let stream = timeout(self.connect_timeout, self.connect()).await;
        let stream = stream.unwrap_or_else(|_| {
            Err(timeout_error("no connection", self.connect_timeout, self.profile.connect_option))
        })?;
        let request = Request::builder().method(method).uri(path);
        let response = timeout(self.read_timeout, self.exchange(stream, request, headers, body)).await;
        response
            .unwrap_or_else(|_| Err(timeout_error("no complete response", self.read_timeout, self.profile.read_option)))
    }

    fn connection_error(&self, reason: impl Into<String>) -> Error {
        Error::connection(&self.endpoint.display_url, reason)
    }

    async fn connect(&self) -> Result<Box<dyn Stream>> {
        let (host, port) = (&self.endpoint.host, self.endpoint.port);
        let Some(proxy) = &self.proxy else {
            let stream = self.tcp(host, port).await?;
            return self.start_tls(stream, host, self.endpoint.https).await;
        };
        let stream = self.tcp(&proxy.host, proxy.port).await?;
        let mut stream = self.start_tls(stream, &proxy.host, proxy.https).await?;
        proxy.tunnel(&mut stream, host, port).await.map_err(|reason| self.connection_error(reason))?;
        self.start_tls(stream, host, self.endpoint.https).await
    }

    async fn tcp(&self, host: &str, port: u16) -> Result<TcpStream> {
        let stream = TcpStream::connect((host, port)).await;
        let stream =
            stream.map_err(|error| self.connection_error(format!("cannot connect to {host}:{port}: {error}")))?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    async fn start_tls(&self, stream: impl Stream + 'static, host: &str, https: bool) -> Result<Box<dyn Stream>> {
        let Some(tls) = self.tls.as_ref().filter(|_| https) else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(host.to_owned());
        let name =
            name.map_err(|_| Error::tls(&self.endpoint.display_url, format!("{host:?} is not a valid host name")))?;
        match TlsConnector::from(tls.config().await).connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(self.tls_error(host, &error)),
        }
    }

    /// Returns a TLS error if the server's certificate is not trusted, because no retry can change that. Otherwise
    /// returns a connection error.
    fn tls_error(&self, host: &str, error: &std::io::Error) -> Error {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(inner) => Error::tls(
                &self.endpoint.display_url,
                format!("no TLS with {host}: {}", (self.profile.describe_tls_error)(inner)),
            ),
            None => self.connection_error(format!("no TLS with {host}: {error}")),
        }
    }

    async fn exchange(
        &self,
        stream: Box<dyn Stream>,
        mut request: Builder,
        headers: HeaderMap,
        body: String,
    ) -> Result<Response> {
        let http_error =
            |error: hyper::Error| self.connection_error(format!("no valid HTTP response: {}", with_causes(&error)));
        let mut builder = hyper::client::conn::http1::Builder::new();
        builder.max_buf_size(MAX_HEADER_SIZE);
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(http_error)?;
        if let Some(all) = request.headers_mut() {
            *all = headers;
        }
        let host = HeaderValue::from_str(&self.endpoint.authority());
        let host = host.map_err(|_| self.connection_error("its host name cannot be sent in a header"))?;
        let request = request.header(HOST, host).body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| self.connection_error(format!("the request is invalid: {error}")))?;
        let response = async {
            let response = sender.send_request(request).await.map_err(http_error)?;
            self.read(response).await
        };
        tokio::pin!(response);
        // The task that waits for the response also drives the connection, so that the connection is dropped when the
        // task stops waiting.
        tokio::select! {
            biased;
            response = &mut response => response,
            _ = connection => response.await,
        }
    }

    async fn read(&self, response: hyper::Response<hyper::body::Incoming>) -> Result<Response> {
        let too_large = || (self.profile.too_large)(&self.endpoint);
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (status, content_type, location) =
            (response.status(), text(CONTENT_TYPE).unwrap_or_default(), text(LOCATION));
        if text(CONTENT_LENGTH)
            .and_then(|size| size.parse::<u64>().ok())
            .is_some_and(|size| size > self.profile.max_body as u64)
        {
            return Err(too_large());
        }
        // The body of a redirect is not needed, so it is not read.
        if status.is_redirection() {
            return Ok(Response { status, content_type, location, body: Bytes::new() });
        }
        let body = Limited::new(response.into_body(), self.profile.max_body).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                too_large()
            } else {
                self.connection_error(format!("the response was cut off: {error}"))
            }
        })?;
        Ok(Response { status, content_type, location, body: body.to_bytes() })
    }
}

/// Returns the text of a hyper error followed by its causes, which are more specific.
fn with_causes(error: &hyper::Error) -> String {
    let below = std::iter::successors(std::error::Error::source(error), |error| error.source());
    below.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
