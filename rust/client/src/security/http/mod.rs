//! One question to a server over HTTP: no redirects, bounded time and size, through the environment's proxy.

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

pub(crate) use endpoint::{Endpoint, unescaped};
pub(crate) use proxy::Proxy;

/// The most of an answer's headers.
const LARGEST_HEAD: usize = 64 << 10;

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) kind: String,
    pub(crate) location: Option<String>,
    pub(crate) body: Bytes,
}

/// Any two-way stream: TCP, TLS over it, TLS over a proxy's TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What is particular to a kind of server.
#[derive(Debug)]
pub(crate) struct Manner {
    /// The option with the time for a connection.
    pub(crate) connect_option: &'static str,
    /// The option with the time for an answer.
    pub(crate) read_option: &'static str,
    /// The most of an answer that is read.
    pub(crate) largest: usize,
    /// The error of an answer that has more.
    pub(crate) too_large: fn(&Endpoint) -> Error,
    /// Why there is no TLS.
    pub(crate) explained: fn(&rustls::Error) -> String,
}

/// Asks one server.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) manner: &'static Manner,
    pub(crate) endpoint: Endpoint,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) connect_timeout: Duration,
    pub(crate) read_timeout: Duration,
}

impl Client {
    /// Posts to the endpoint itself.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub(crate) async fn post(&self, headers: HeaderMap, body: String) -> Result<Answer> {
        self.request(Method::POST, &self.endpoint.path, headers, body).await
    }

    /// Asks for a path.
    ///
    /// # Errors
    /// [`Error::Connection`] where another attempt may do, [`Error::Tls`] and [`Error::Authentication`] where it will not.
    pub(crate) async fn request(&self, method: Method, path: &str, headers: HeaderMap, body: String) -> Result<Answer> {
        let late = |what: &str, limit: Duration, option: &str| {
            self.failed(format!("{what} within {} ms ({option})", limit.as_millis()))
        };
        let connected = timeout(self.connect_timeout, self.connected()).await;
        let stream = connected
            .unwrap_or_else(|_| Err(late("no connection", self.connect_timeout, self.manner.connect_option)))?;
        let request = Request::builder().method(method).uri(path);
        let answered = timeout(self.read_timeout, self.ask(stream, request, headers, body)).await;
        answered.unwrap_or_else(|_| Err(late("no whole answer", self.read_timeout, self.manner.read_option)))
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
            Some(inner) => {
                Error::tls(&self.endpoint.shown, format!("no TLS with {host}: {}", (self.manner.explained)(inner)))
            }
            None => self.failed(format!("no TLS with {host}: {error}")),
        }
    }

    async fn ask(
        &self,
        stream: Box<dyn Stream>,
        mut request: Builder,
        headers: HeaderMap,
        body: String,
    ) -> Result<Answer> {
        let broken = |error: hyper::Error| self.failed(format!("no answer in HTTP: {}", causes(&error)));
        let mut builder = hyper::client::conn::http1::Builder::new();
        builder.max_buf_size(LARGEST_HEAD);
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
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
        let too_large = || (self.manner.too_large)(&self.endpoint);
        let text = |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (status, kind, location) = (answer.status(), text(CONTENT_TYPE).unwrap_or_default(), text(LOCATION));
        if text(CONTENT_LENGTH)
            .and_then(|size| size.parse::<u64>().ok())
            .is_some_and(|size| size > self.manner.largest as u64)
        {
            return Err(too_large());
        }
        // What a redirect says beside its target is of no use.
        if status.is_redirection() {
            return Ok(Answer { status, kind, location, body: Bytes::new() });
        }
        let body = Limited::new(answer.into_body(), self.manner.largest).collect().await.map_err(|error| {
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
