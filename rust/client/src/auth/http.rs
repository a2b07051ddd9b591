//! One question to a server over HTTP: no redirects, bounded time and size, through the environment's proxy.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::endpoint::Endpoint;
use super::proxy::Proxy;
use super::trust;
use crate::error::{Error, Result};
use crate::tls::Tls;

/// The most of an answer that is read.
pub(super) const LARGEST: usize = 1 << 20;
/// Of its headers.
const LARGEST_HEAD: usize = 64 << 10;

/// What was answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) kind: String,
    pub(super) location: Option<String>,
    pub(super) body: Bytes,
}

/// Any two-way stream: TCP, TLS over it, TLS over a proxy's TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Asks one server.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) endpoint: Endpoint,
    pub(super) tls: Option<Arc<Tls>>,
    pub(super) proxy: Option<Proxy>,
    pub(super) connect_timeout: Duration,
    pub(super) read_timeout: Duration,
}

impl Client {
    /// Posts a form.
    ///
    /// # Errors
    /// [`Error::Connection`] where another attempt may do, [`Error::Tls`] and [`Error::Authentication`] where it will not.
    pub(super) async fn post(&self, headers: HeaderMap, body: String) -> Result<Answer> {
        let late = |what: &str, limit: Duration, option: &str| {
            self.failed(format!("{what} within {} ms ({option})", limit.as_millis()))
        };
        let connected = timeout(self.connect_timeout, self.connected()).await;
        let stream = connected
            .unwrap_or_else(|_| Err(late("no connection", self.connect_timeout, "sasl.login.connect.timeout.ms")))?;
        let answered = timeout(self.read_timeout, self.ask(stream, headers, body)).await;
        answered.unwrap_or_else(|_| Err(late("no whole answer", self.read_timeout, "sasl.login.read.timeout.ms")))
    }

    fn failed(&self, reason: impl Into<String>) -> Error {
        Error::connection(&self.endpoint.shown, reason)
    }

    async fn connected(&self) -> Result<Box<dyn Stream>> {
        let (host, port) = (&self.endpoint.host, self.endpoint.port);
        let Some(proxy) = &self.proxy else {
            let stream = self.tcp(host, port).await?;
            return self.secured(stream, host, self.endpoint.https).await;
        };
        let stream = self.tcp(&proxy.host, proxy.port).await?;
        let mut stream = self.secured(stream, &proxy.host, proxy.https).await?;
        proxy.tunnel(&mut stream, host, port).await.map_err(|reason| self.failed(reason))?;
        self.secured(stream, host, self.endpoint.https).await
    }

    async fn tcp(&self, host: &str, port: u16) -> Result<TcpStream> {
        let stream = TcpStream::connect((host, port)).await;
        let stream = stream.map_err(|error| self.failed(format!("cannot connect to {host}:{port}: {error}")))?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    async fn secured(&self, stream: impl Stream + 'static, host: &str, https: bool) -> Result<Box<dyn Stream>> {
        let Some(tls) = self.tls.as_ref().filter(|_| https) else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| Error::tls(&self.endpoint.shown, format!("{host:?} is no host name")))?;
        match TlsConnector::from(tls.config().await).connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(self.insecure(host, &error)),
        }
    }

    /// A certificate that is not trusted is not trusted at the next attempt either.
    fn insecure(&self, host: &str, error: &std::io::Error) -> Error {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(inner) => Error::tls(&self.endpoint.shown, format!("no TLS with {host}: {}", trust::explained(inner))),
            None => self.failed(format!("no TLS with {host}: {error}")),
        }
    }

    async fn ask(&self, stream: Box<dyn Stream>, headers: HeaderMap, body: String) -> Result<Answer> {
        let broken = |error: hyper::Error| self.failed(format!("no answer in HTTP: {}", causes(&error)));
        let mut builder = hyper::client::conn::http1::Builder::new();
        builder.max_buf_size(LARGEST_HEAD);
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let mut request = Request::post(&self.endpoint.path);
        if let Some(all) = request.headers_mut() {
            *all = headers;
        }
        let host = HeaderValue::from_str(&self.endpoint.authority());
        let host = host.map_err(|_| self.failed("its name cannot be sent"))?;
        let request = request.header(HOST, host).body(Full::new(Bytes::from(body)));
        let request = request.map_err(|error| self.failed(format!("it cannot be asked: {error}")))?;
        let answer = async {
            let answer = sender.send_request(request).await.map_err(broken)?;
            self.read(answer).await
        };
        tokio::pin!(answer);
        // The connection is driven by anyone who waits for the answer: nothing of it is left when that ends.
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            _ = connection => answer.await,
        }
    }

    async fn read(&self, answer: hyper::Response<hyper::body::Incoming>) -> Result<Answer> {
        let too_large = || {
            let text = format!("the answer has more than {LARGEST} bytes: is this a token endpoint?");
            Error::authentication(&self.endpoint.shown, text)
        };
        let text = |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (status, kind, location) = (answer.status(), text(CONTENT_TYPE).unwrap_or_default(), text(LOCATION));
        if text(CONTENT_LENGTH).and_then(|size| size.parse::<u64>().ok()).is_some_and(|size| size > LARGEST as u64) {
            return Err(too_large());
        }
        // What a redirect says beside its target is of no use.
        if status.is_redirection() {
            return Ok(Answer { status, kind, location, body: Bytes::new() });
        }
        let body = Limited::new(answer.into_body(), LARGEST).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                too_large()
            } else {
                self.failed(format!("the answer broke off: {error}"))
            }
        })?;
        Ok(Answer { status, kind, location, body: body.to_bytes() })
    }
}

/// An error of hyper's and those below it, which say more.
fn causes(error: &hyper::Error) -> String {
    let below = std::iter::successors(std::error::Error::source(error), |error| error.source());
    below.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
