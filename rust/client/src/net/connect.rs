//! Name resolution, TCP connections and TLS handshakes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use samsarrow_wire::frame;
use samsarrow_wire::messages::ApiVersionsRequest;

use super::shared_config::{Destination, Setup};
use super::socket::{TcpSocket, TcpStream, lookup_host};
use super::tls_stream;
use super::tls_stream::HandshakeFailure;
use super::transport::{self, Reader, Writer};
use crate::config::Protocol;
use crate::error::{Error, Result};
use crate::security::tls::{Tls, server_name, tls_errors};

/// Error numbers of EMFILE and ENFILE on Linux, macOS and the BSDs.
const TOO_MANY_FILES: [i32; 2] = [24, 23];

/// Maximum time for the check whether a listener uses plaintext, after a TLS handshake has failed.
const DIAGNOSIS: Duration = Duration::from_millis(500);

/// Returns all addresses of `host:port`.
pub(crate) async fn resolve(address: &str, limit: Duration) -> Result<Vec<SocketAddr>> {
    match timeout(limit, lookup_host(address)).await {
        Ok(Ok(addresses)) => Ok(addresses.collect()),
        Ok(Err(e)) => Err(io_error(address, "the host name cannot be resolved", &e)),
        Err(_) => Err(Error::connection(address, "the host name cannot be resolved in time")),
    }
}

/// One resolved address of a broker, and the settings to connect to it.
pub(super) struct Target<'a> {
    pub(super) address: &'a str,
    pub(super) socket: SocketAddr,
    pub(super) setup: &'a Arc<Setup>,
    /// Maximum time to connect, including the TLS handshake.
    pub(super) limit: Duration,
    /// Broker that the address must belong to, if it is known.
    pub(super) destination: Option<&'a Destination>,
}

impl Target<'_> {
    /// Connects, with TLS if it is configured. There is no fallback from TLS to plaintext.
    pub(super) async fn open(&self) -> Result<(Reader, Writer)> {
        let started = Instant::now();
        let stream = self.connect().await?;
        match &self.setup.security.tls {
            None => Ok(transport::plain(stream)),
            Some(tls) => {
                let remaining = self.limit.saturating_sub(started.elapsed());
                timeout(remaining, self.start_tls(stream, tls)).await.unwrap_or_else(|_| {
                    let reason = format!("no TLS handshake within {} ms", self.limit.as_millis());
                    Err(Error::connection(self.address, reason))
                })
            }
        }
    }

    async fn start_tls(&self, stream: TcpStream, tls: &Arc<Tls>) -> Result<(Reader, Writer)> {
        let name = server_name(self.address)?;
        let failure = match tls_stream::handshake(self.address, stream, tls.config().await, name).await {
            Ok((reader, writer)) => return Ok((Reader::Tls(reader), Writer::Tls(writer))),
            Err(failure) => failure,
        };
        let plaintext_protocol = match self.setup.options.security.protocol {
            Protocol::Ssl | Protocol::Plaintext => "PLAINTEXT",
            Protocol::SaslSsl | Protocol::SaslPlaintext => "SASL_PLAINTEXT",
        };
        match failure {
            HandshakeFailure::Tls(error, first, has_certificate) => Err(Error::tls(
                self.address,
                tls_errors::handshake(&error, &first, has_certificate, plaintext_protocol),
            )),
            // Kafka without TLS closes the connection immediately, but so does Kafka with TLS while it shuts down.
            failure if !failure.received_data() && self.speaks_plaintext().await => {
                Err(Error::tls(self.address, tls_errors::not_tls(plaintext_protocol)))
            }
            HandshakeFailure::Io(error) => {
                Err(Error::io(self.address, "the connection broke in the TLS handshake", &error))
            }
            HandshakeFailure::Closed { .. } => Err(Error::connection(
                self.address,
                "the connection was closed in the TLS handshake: does this listener use TLS?",
            )),
        }
    }

    /// Returns true if a plaintext Kafka listener responds at this address. The probe reveals nothing about this
    /// client, and its result determines only the text of an error.
    async fn speaks_plaintext(&self) -> bool {
        const PROBE_ID: i32 = 0x5A17;
        let probe = async {
            let (mut reader, mut writer) = transport::plain(self.connect().await.ok()?);
            let mut frame = frame::request_in_pieces(&ApiVersionsRequest::default(), 0, PROBE_ID, None).ok()?;
            writer.write_all(&mut frame).await.ok()?;
            let mut response = [0; 8];
            reader.read_exact(&mut response).await.ok()?;
            response.ends_with(&PROBE_ID.to_be_bytes()).then_some(())
        };
        timeout(DIAGNOSIS.min(self.limit), probe).await.is_ok_and(|matched| matched.is_some())
    }

    /// Opens the TCP connection.
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
            Ok(Err(e)) => Err(io_error(self.address, "cannot connect", &e)),
            Err(_) => {
                Err(Error::connection(self.address, format!("cannot connect within {} ms", self.limit.as_millis())))
            }
        }
    }
}

fn io_error(address: &str, action: &str, error: &std::io::Error) -> Error {
    if error.raw_os_error().is_some_and(|code| TOO_MANY_FILES.contains(&code)) {
        let text = format!(
            "{action}: {error}: no file descriptor is left. Close files or clients, or raise the limit (ulimit -n)"
        );
        return Error::connection(address, text);
    }
    Error::io(address, action, error)
}
