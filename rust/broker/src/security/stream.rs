//! Plaintext or TLS stream of a connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::time::sleep;
use tokio_rustls::server::TlsStream;

use crate::socket::TcpStream;

/// Minimum size in bytes of a TLS record that contains a request. If fewer bytes precede the end of the stream, they
/// are a close_notify alert.
const MIN_REQUEST_BYTES: usize = 36;
/// Interval at which a TLS stream with unread bytes is checked for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Stream of a client connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Waits until the peer has closed the connection, for requests with a delayed response. Never completes if the
    /// peer has sent further requests, since these are handled even if the connection was closed after them.
    pub(crate) async fn disconnected(&self) {
        let tcp = self.tcp();
        loop {
            match tcp.peek(&mut [0; MIN_REQUEST_BYTES]).await {
                Ok(0) | Err(_) => return,
                Ok(MIN_REQUEST_BYTES) => return std::future::pending().await,
                Ok(_) if matches!(self, Stream::Plain(_)) => return std::future::pending().await,
                Ok(_) => match tcp.ready(Interest::READABLE).await {
                    Ok(ready) if !ready.is_read_closed() => sleep(POLL_INTERVAL).await,
                    _ => return,
                },
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::timeout;
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::security::counts::Counts;
    use crate::security::{ClientAuth, Tls};

    const SHORT_WAIT: Duration = Duration::from_millis(300);
    const TIMEOUT: Duration = Duration::from_secs(10);

    async fn pair() -> (Stream, tokio_rustls::client::TlsStream<TcpStream>) {
        let tls = Tls::new("127.0.0.1", ClientAuth::None).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(tls.ca_pem().as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = async {
            let stream = TcpStream::connect(address).await.unwrap();
            let name = ServerName::try_from("127.0.0.1").unwrap();
            TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
        };
        let counts = Counts::default();
        let server = async { tls.accept(listener.accept().await.unwrap().0, &counts).await.unwrap() };
        tokio::join!(server, client)
    }

    #[tokio::test]
    async fn close_notify_counts_as_disconnect() {
        let (server, mut client) = pair().await;
        assert!(timeout(SHORT_WAIT, server.disconnected()).await.is_err(), "nobody has left");
        client.shutdown().await.unwrap();
        timeout(TIMEOUT, server.disconnected()).await.expect("the client has left");
    }

    #[tokio::test]
    async fn pending_request_hides_disconnect() {
        let (server, mut client) = pair().await;
        client.write_all(&[0; 14]).await.unwrap();
        client.shutdown().await.unwrap();
        assert!(timeout(SHORT_WAIT, server.disconnected()).await.is_err());
    }
}
