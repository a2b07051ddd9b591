//! From a name to a socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::{Instant, timeout};

use samsarrow_wire::frame;
use samsarrow_wire::messages::ApiVersionsRequest;

use super::shared_config::Setup;
use super::tls_stream;
use super::tls_stream::Failure;
use super::transport::{self, Reader, Writer};
use crate::config::Protocol;
use crate::error::{Error, Result};
use crate::security::tls::{Tls, server_name, tls_errors};

/// EMFILE and ENFILE on Linux, macOS and the BSDs.
const TOO_MANY_FILES: [i32; 2] = [24, 23];

/// For finding out what the other side speaks, once TLS has failed.
const DIAGNOSIS: Duration = Duration::from_millis(500);

/// All addresses of `host:port`.
pub(crate) async fn resolve(address: &str, limit: Duration) -> Result<Vec<SocketAddr>> {
    match timeout(limit, lookup_host(address)).await {
        Ok(Ok(addresses)) => Ok(addresses.collect()),
        Ok(Err(e)) => Err(failed(address, "the host name cannot be resolved", &e)),
        Err(_) => Err(Error::connection(address, "the host name cannot be resolved in time")),
    }
}

/// One of the addresses that a name has, and how it is connected to.
pub(super) struct Target<'a> {
    pub(super) address: &'a str,
    pub(super) socket: SocketAddr,
    pub(super) setup: &'a Arc<Setup>,
    /// For the connection to be made, with its handshake of TLS.
    pub(super) limit: Duration,
}

impl Target<'_> {
    /// A connection to it, over TLS where that is wanted: never without.
    pub(super) async fn open(&self) -> Result<(Reader, Writer)> {
        let begun = Instant::now();
        let stream = self.connect().await?;
        match &self.setup.security.tls {
            None => Ok(transport::plain(stream)),
            Some(tls) => {
                let left = self.limit.saturating_sub(begun.elapsed());
                timeout(left, self.secure(stream, tls)).await.unwrap_or_else(|_| {
                    let reason = format!("no TLS handshake within {} ms", self.limit.as_millis());
                    Err(Error::connection(self.address, reason))
                })
            }
        }
    }

    async fn secure(&self, stream: TcpStream, tls: &Arc<Tls>) -> Result<(Reader, Writer)> {
        let name = server_name(self.address)?;
        let failure = match tls_stream::handshake(self.address, stream, tls.config().await, name).await {
            Ok((reader, writer)) => return Ok((Reader::Tls(reader), Writer::Tls(writer))),
            Err(failure) => failure,
        };
        let in_the_clear = match self.setup.options.security.protocol {
            Protocol::Ssl | Protocol::Plaintext => "PLAINTEXT",
            Protocol::SaslSsl | Protocol::SaslPlaintext => "SASL_PLAINTEXT",
        };
        match failure {
            Failure::Tls(error, first, shows) => {
                Err(Error::tls(self.address, tls_errors::handshake(&error, &first, shows, in_the_clear)))
            }
            // Kafka without TLS closes the connection at once. So does Kafka with TLS when it is about to end.
            failure if !failure.spoke() && self.speaks_in_the_clear().await => {
                Err(Error::tls(self.address, tls_errors::clear(in_the_clear)))
            }
            Failure::Io(error) => Err(Error::io(self.address, "the connection broke in the TLS handshake", &error)),
            Failure::Closed { .. } => Err(Error::connection(
                self.address,
                "the connection was closed in the TLS handshake: is TLS spoken there?",
            )),
        }
    }

    /// Whether there is a Kafka that speaks in the clear. It gets a question that has nothing of this client in it, and
    /// nothing but the text of an error depends on its answer.
    async fn speaks_in_the_clear(&self) -> bool {
        const QUESTION: i32 = 0x5A17;
        let ask = async {
            let (mut reader, mut writer) = transport::plain(self.connect().await.ok()?);
            let mut frame = frame::request_in_pieces(&ApiVersionsRequest::default(), 0, QUESTION, None).ok()?;
            writer.write_all(&mut frame).await.ok()?;
            let mut answer = [0; 8];
            reader.read_exact(&mut answer).await.ok()?;
            answer.ends_with(&QUESTION.to_be_bytes()).then_some(())
        };
        timeout(DIAGNOSIS.min(self.limit), ask).await.is_ok_and(|answer| answer.is_some())
    }

    /// A socket to it.
    async fn connect(&self) -> Result<TcpStream> {
        let attempt = async {
            let socket = if self.socket.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            if let Some(size) = self.setup.options.receive_buffer {
                socket.set_recv_buffer_size(size)?;
            }
            if let Some(size) = self.setup.options.send_buffer {
                socket.set_send_buffer_size(size)?;
            }
            let stream = socket.connect(self.socket).await?;
            stream.set_nodelay(true)?;
            Ok::<_, std::io::Error>(stream)
        };
        match timeout(self.limit, attempt).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(e)) => Err(failed(self.address, "cannot connect", &e)),
            Err(_) => {
                Err(Error::connection(self.address, format!("cannot connect within {} ms", self.limit.as_millis())))
            }
        }
    }
}

fn failed(address: &str, doing: &str, error: &std::io::Error) -> Error {
    if error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code)) {
        let text = format!(
            "{doing}: {error}: no file descriptor is left. Close files or clients, or raise the limit (ulimit -n)"
        );
        return Error::connection(address, text);
    }
    Error::io(address, doing, error)
}
