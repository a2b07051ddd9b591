//! TLS over one socket.
//!
//! rustls' buffered reader reads 4 KiB at a time from the socket, which takes four to five system calls per record.
//! Here, one call reads many records, and their payload is decrypted directly into the caller's buffer. Reader and
//! writer share one session, because every call to rustls needs the receive buffer: rustls refers to incomplete
//! handshake messages by their position in it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::Buf;
use rustls::ClientConfig;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use samsarrow_wire::messages::Frame;
use samsarrow_wire::sync::lock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};

use super::socket::{OwnedReadHalf, OwnedWriteHalf, TcpStream};
use super::tls_session::{MAX_OVERHEAD, MAX_PAYLOAD, Session, Step};
use crate::error::Error;
use crate::security::tls::tls_errors;

/// Approximate number of bytes that are encrypted for one write to the socket.
const WRITE_STEP: usize = 8 * MAX_PAYLOAD;

/// Reason for a failed handshake.
#[derive(Debug)]
pub(super) enum HandshakeFailure {
    /// The socket failed.
    Io(io::Error),
    /// The peer has closed the connection.
    Closed {
        /// True if the peer had sent any bytes before.
        received_data: bool,
    },
    /// rustls rejected the handshake: the error, the first bytes received, and true if the client has a certificate.
    Tls(rustls::Error, Vec<u8>, bool),
}

impl HandshakeFailure {
    /// Returns true if the peer is known to have sent bytes.
    pub(super) fn received_data(&self) -> bool {
        match self {
            Self::Io(_) => false,
            Self::Closed { received_data } => *received_data,
            Self::Tls(..) => true,
        }
    }
}

impl From<io::Error> for HandshakeFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Performs the TLS handshake, and returns the reading and the writing half of the connection.
pub(super) async fn handshake(
    address: &str,
    mut stream: TcpStream,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
) -> Result<(TlsReader, TlsWriter), HandshakeFailure> {
    let has_certificate = config.client_auth_cert_resolver.has_certs();
    let connection = UnbufferedClientConnection::new(config, name)
        .map_err(|error| HandshakeFailure::Tls(error, Vec::new(), has_certificate))?;
    let mut session = Session::new(connection);
    let mut first = Vec::new();
    loop {
        let state = session.drive_handshake();
        if !session.out.is_empty() {
            let out = std::mem::take(&mut session.out);
            let written = stream.write_all(&out).await;
            // If the peer has closed the connection, the write fails, but the peer's alert may still be readable.
            if state.is_ok() && !matches!(&written, Err(e) if e.kind() == io::ErrorKind::BrokenPipe) {
                written?;
            }
        }
        match state {
            Ok(true) => break,
            Ok(false) => {}
            Err(error) => return Err(HandshakeFailure::Tls(error, first, has_certificate)),
        }
        let free = session.free_space();
        let read = stream.read(free).await?;
        if read == 0 {
            return Err(HandshakeFailure::Closed { received_data: !first.is_empty() });
        }
        if first.is_empty() {
            first.extend_from_slice(free.get(..read.min(16)).unwrap_or_default());
        }
        session.filled(read);
    }
    let session = Arc::new(Mutex::new(session));
    let (read, write) = stream.into_split();
    let peer = Peer { address: address.to_owned(), has_certificate };
    let reader = TlsReader { socket: read, session: Arc::clone(&session), peer: peer.clone() };
    let writer = TlsWriter { socket: write, session, peer, piece: Vec::new(), sealed: Vec::new() };
    Ok((reader, writer))
}

/// The peer of a session, for error messages.
#[derive(Clone)]
struct Peer {
    address: String,
    /// True if the client has a certificate.
    has_certificate: bool,
}

impl Peer {
    /// Returns the error to report. In TLS 1.3, a broker verifies the client's certificate only after the client has
    /// completed the handshake, so the broker's alert arrives instead of the first response.
    fn error(&self, error: rustls::Error) -> io::Error {
        match &error {
            rustls::Error::AlertReceived(alert) if tls_errors::is_client_rejected(&error) => {
                io::Error::other(Error::tls(&*self.address, tls_errors::describe_alert(*alert, self.has_certificate)))
            }
            _ => io::Error::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// The reading half.
pub(super) struct TlsReader {
    socket: OwnedReadHalf,
    session: Arc<Mutex<Session>>,
    peer: Peer,
}

impl TlsReader {
    /// Reads the available bytes and passes at most `max` to `put`. Returns 0 at the end of the stream. Cancel-safe: no
    /// bytes are lost if the future is dropped.
    pub(super) async fn read(&mut self, max: usize, mut put: impl FnMut(&[u8])) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll(cx, max, &mut put)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>, max: usize, put: &mut dyn FnMut(&[u8])) -> Poll<io::Result<usize>> {
        let mut session = lock(&self.session);
        loop {
            match session.read(max, put) {
                Ok(Step::Read(read)) => return Poll::Ready(Ok(read)),
                Ok(Step::Ended) => return Poll::Ready(Ok(0)),
                Ok(Step::Blocked) => {}
                Err(error) => {
                    session.encode_alert();
                    if !session.writing && !session.out.is_empty() {
                        // The alert helps to diagnose the failure at the broker. It is not sent if the socket would
                        // block.
                        let _ = self.socket.as_ref().try_write(&session.out);
                    }
                    return Poll::Ready(Err(self.peer.error(error)));
                }
            }
            let mut free = ReadBuf::new(session.free_space());
            ready!(Pin::new(&mut self.socket).poll_read(cx, &mut free))?;
            let received = free.filled().len();
            if received == 0 {
                return Poll::Ready(Ok(0));
            }
            session.filled(received);
        }
    }
}

/// The writing half.
pub(super) struct TlsWriter {
    socket: OwnedWriteHalf,
    session: Arc<Mutex<Session>>,
    peer: Peer,
    /// Buffer that joins small chunks of a frame, so that they form one record.
    piece: Vec<u8>,
    sealed: Vec<u8>,
}

impl TlsWriter {
    /// Writes the whole frame.
    pub(super) async fn write_all(&mut self, frame: &mut Frame) -> io::Result<()> {
        while frame.has_remaining() {
            self.seal(frame).map_err(|error| self.peer.error(error))?;
            self.socket.write_all(&self.sealed).await.map_err(|error| self.write_error(error))?;
            self.sealed.clear();
            lock(&self.session).writing = false;
        }
        Ok(())
    }

    /// Returns the reason for a failed write. A peer that closes a connection has often sent an alert before, which can
    /// still be read.
    fn write_error(&self, error: io::Error) -> io::Error {
        let mut session = lock(&self.session);
        while session.failed.is_none() {
            match self.socket.as_ref().try_read(session.free_space()) {
                Ok(received) if received > 0 => session.filled(received),
                _ => return error,
            }
            let _ = session.with_traffic(|_| ());
        }
        session.failed.clone().map_or(error, |failed| self.peer.error(failed))
    }

    /// Encrypts the next bytes of the frame into `sealed`. Large chunks are encrypted without a copy.
    fn seal(&mut self, frame: &mut Frame) -> Result<(), rustls::Error> {
        let mut session = lock(&self.session);
        while self.sealed.len() < WRITE_STEP && frame.has_remaining() {
            let chunk = frame.chunk();
            let whole = chunk.len().min(WRITE_STEP) / MAX_PAYLOAD * MAX_PAYLOAD;
            if let Some(records) = chunk.get(..whole).filter(|records| !records.is_empty()) {
                session.seal(records, &mut self.sealed)?;
                frame.advance(whole);
                continue;
            }
            self.piece.clear();
            while self.piece.len() < MAX_PAYLOAD && frame.has_remaining() {
                let chunk = frame.chunk();
                let some = chunk.get(..MAX_PAYLOAD - self.piece.len()).unwrap_or(chunk);
                self.piece.extend_from_slice(some);
                let count = some.len();
                frame.advance(count);
            }
            session.seal(&self.piece, &mut self.sealed)?;
        }
        session.writing = true;
        Ok(())
    }
}

impl Drop for TlsWriter {
    /// Sends close_notify if the socket accepts it without blocking.
    fn drop(&mut self) {
        let mut session = lock(&self.session);
        if session.writing {
            return;
        }
        let mut close_notify = [0; 2 * MAX_OVERHEAD];
        let written = session.with_traffic(|mut traffic| traffic.queue_close_notify(&mut close_notify));
        if let Some(close_notify) = written.ok().and_then(Result::ok).and_then(|written| close_notify.get(..written)) {
            let _ = self.socket.try_write(close_notify);
        }
    }
}

#[cfg(test)]
#[path = "tls_stream_tests.rs"]
mod tests;
