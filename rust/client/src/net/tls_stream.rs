//! TLS over one socket.
//!
//! rustls' own buffered reader asks a socket for 4 KiB at a time, four to five calls a record. So records are read here,
//! many with one call, and what is in them goes straight to where it is wanted. Reading and writing share one session:
//! handshake messages that are not whole yet are known to rustls by their place in what was received, so anyone who goes to
//! rustles brings that along.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Buf;
use rustls::ClientConfig;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use samsarrow_wire::messages::Frame;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::tls_session::{OVERHEAD, RECORD, Session, Step};
use crate::error::Error;
use crate::security::tls::tls_errors;

/// As much is encrypted before it is written.
const WRITE_STEP: usize = 8 * RECORD;

/// Why there is no session.
#[derive(Debug)]
pub(super) enum Failure {
    /// The socket broke.
    Io(io::Error),
    /// The other side closed it, having said something or nothing.
    Closed {
        /// Whether anything came.
        spoke: bool,
    },
    /// What came is not acceptable; with the first bytes that came, and whether the client has a certificate.
    Tls(rustls::Error, Vec<u8>, bool),
}

impl Failure {
    /// Whether anything came from the other side.
    pub(super) fn spoke(&self) -> bool {
        match self {
            Self::Io(_) => false,
            Self::Closed { spoke } => *spoke,
            Self::Tls(..) => true,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Both ways of a socket, over TLS.
pub(super) async fn handshake(
    address: &str,
    mut stream: TcpStream,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
) -> Result<(TlsReader, TlsWriter), Failure> {
    let shows = config.client_auth_cert_resolver.has_certs();
    let connection =
        UnbufferedClientConnection::new(config, name).map_err(|error| Failure::Tls(error, Vec::new(), shows))?;
    let mut session = Session::new(connection);
    let mut first = Vec::new();
    loop {
        let state = session.shake();
        if !session.out.is_empty() {
            let out = std::mem::take(&mut session.out);
            let written = stream.write_all(&out).await;
            // Where it is refused, the reason may be there to read.
            if state.is_ok() && !matches!(&written, Err(e) if e.kind() == io::ErrorKind::BrokenPipe) {
                written?;
            }
        }
        match state {
            Ok(true) => break,
            Ok(false) => {}
            Err(error) => return Err(Failure::Tls(error, first, shows)),
        }
        let room = session.room();
        let read = stream.read(room).await?;
        if read == 0 {
            return Err(Failure::Closed { spoke: !first.is_empty() });
        }
        if first.is_empty() {
            first.extend_from_slice(room.get(..read.min(16)).unwrap_or_default());
        }
        session.came(read);
    }
    let session = Arc::new(Mutex::new(session));
    let (read, write) = stream.into_split();
    let peer = Peer { address: address.to_owned(), shows };
    let reader = TlsReader { socket: read, session: Arc::clone(&session), peer: peer.clone() };
    let writer = TlsWriter { socket: write, session, peer, piece: Vec::new(), sealed: Vec::new() };
    Ok((reader, writer))
}

fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whom a session is with.
#[derive(Clone)]
struct Peer {
    address: String,
    /// Whether the client has a certificate of its own.
    shows: bool,
}

impl Peer {
    /// What went wrong. In TLS 1.3 a broker looks at the client's certificate when the client is done with the
    /// handshake, so that comes with the first answer.
    fn error(&self, error: rustls::Error) -> io::Error {
        match &error {
            rustls::Error::AlertReceived(alert) if tls_errors::is_about_us(&error) => {
                io::Error::other(Error::tls(&*self.address, tls_errors::refused(*alert, self.shows)))
            }
            _ => io::Error::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// What comes in.
pub(super) struct TlsReader {
    socket: OwnedReadHalf,
    session: Arc<Mutex<Session>>,
    peer: Peer,
}

impl TlsReader {
    /// What is there, at most `room` bytes; 0 at the end. Nothing is lost if the future is dropped.
    pub(super) async fn read(&mut self, room: usize, mut put: impl FnMut(&[u8])) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll(cx, room, &mut put)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>, room: usize, put: &mut dyn FnMut(&[u8])) -> Poll<io::Result<usize>> {
        let mut session = lock(&self.session);
        loop {
            match session.read(room, put) {
                Ok(Step::Read(read)) => return Poll::Ready(Ok(read)),
                Ok(Step::Ended) => return Poll::Ready(Ok(0)),
                Ok(Step::Blocked) => {}
                Err(error) => {
                    session.last_words();
                    if !session.writing && !session.out.is_empty() {
                        // It helps anyone who looks at the other side; nothing depends on it.
                        let _ = self.socket.as_ref().try_write(&session.out);
                    }
                    return Poll::Ready(Err(self.peer.error(error)));
                }
            }
            let mut free = ReadBuf::new(session.room());
            ready!(Pin::new(&mut self.socket).poll_read(cx, &mut free))?;
            let came = free.filled().len();
            if came == 0 {
                return Poll::Ready(Ok(0));
            }
            session.came(came);
        }
    }
}

/// What goes out.
pub(super) struct TlsWriter {
    socket: OwnedWriteHalf,
    session: Arc<Mutex<Session>>,
    peer: Peer,
    /// Small pieces of a frame, which share a record.
    piece: Vec<u8>,
    sealed: Vec<u8>,
}

impl TlsWriter {
    /// The whole frame.
    pub(super) async fn write_all(&mut self, frame: &mut Frame) -> io::Result<()> {
        while frame.has_remaining() {
            self.seal(frame).map_err(|error| self.peer.error(error))?;
            self.socket.write_all(&self.sealed).await.map_err(|error| self.reason(error))?;
            self.sealed.clear();
            lock(&self.session).writing = false;
        }
        Ok(())
    }

    /// Why writing failed: who closes a connection has often said why, and that can still be read.
    fn reason(&self, error: io::Error) -> io::Error {
        let mut session = lock(&self.session);
        while session.failed.is_none() {
            match self.socket.as_ref().try_read(session.room()) {
                Ok(came) if came > 0 => session.came(came),
                _ => return error,
            }
            let _ = session.with_traffic(|_| ());
        }
        session.failed.clone().map_or(error, |failed| self.peer.error(failed))
    }

    /// Encrypts the next part of the frame. Large pieces are encrypted from where they are.
    fn seal(&mut self, frame: &mut Frame) -> Result<(), rustls::Error> {
        let mut session = lock(&self.session);
        while self.sealed.len() < WRITE_STEP && frame.has_remaining() {
            let chunk = frame.chunk();
            let whole = chunk.len().min(WRITE_STEP) / RECORD * RECORD;
            if let Some(records) = chunk.get(..whole).filter(|records| !records.is_empty()) {
                session.seal(records, &mut self.sealed)?;
                frame.advance(whole);
                continue;
            }
            self.piece.clear();
            while self.piece.len() < RECORD && frame.has_remaining() {
                let chunk = frame.chunk();
                let some = chunk.get(..RECORD - self.piece.len()).unwrap_or(chunk);
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
    /// Says goodbye where that takes no waiting.
    fn drop(&mut self) {
        let mut session = lock(&self.session);
        if session.writing {
            return;
        }
        let mut farewell = [0; 2 * OVERHEAD];
        let written = session.with_traffic(|mut traffic| traffic.queue_close_notify(&mut farewell));
        if let Some(farewell) = written.ok().and_then(Result::ok).and_then(|written| farewell.get(..written)) {
            let _ = self.socket.try_write(farewell);
        }
    }
}

#[cfg(test)]
#[path = "tls_stream_tests.rs"]
mod tests;
