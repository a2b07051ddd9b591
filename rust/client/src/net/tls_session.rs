//! A TLS session without its socket: buffers for received bytes, decrypted bytes and bytes to send.

use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, WriteTraffic};

/// Initial size of the receive buffer, which fits one record of the maximum size (RFC 8446 §5.2, RFC 5246 §6.2.3).
const INITIAL_CAPACITY: usize = 5 + (1 << 14) + 2048;
/// Maximum size of the receive buffer. The buffer grows up to this size as long as reads fill it.
const MAX_CAPACITY: usize = 1 << 18;
/// Maximum payload of a record.
pub(super) const MAX_PAYLOAD: usize = 1 << 14;
/// Maximum number of bytes by which a record is larger than its payload.
pub(super) const MAX_OVERHEAD: usize = 64;

/// TLS state shared by the reader and the writer of a connection.
pub(super) struct Session {
    connection: UnbufferedClientConnection,
    /// Receive buffer. The bytes from `start` to `end` are received but not processed yet.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    /// Decrypted bytes that did not fit into the reader's buffer.
    plain: Vec<u8>,
    /// Number of bytes of `plain` that were already returned.
    returned: usize,
    /// Bytes that must be sent before any other bytes.
    pub(super) out: Vec<u8>,
    /// True while a record may have been sent only in part. Until it is sent completely, no other bytes may be sent.
    pub(super) writing: bool,
    /// Error that ended the session.
    pub(super) failed: Option<rustls::Error>,
}

/// Result of [`Session::read`].
pub(super) enum Step {
    /// This number of bytes was returned: all bytes received, or as many as requested.
    Read(usize),
    /// More bytes must be received.
    Blocked,
    /// The peer has closed the session.
    Ended,
}

impl Session {
    pub(super) fn new(connection: UnbufferedClientConnection) -> Self {
        Self {
            connection,
            incoming: vec![0; INITIAL_CAPACITY],
            start: 0,
            end: 0,
            plain: Vec::new(),
            returned: 0,
            out: Vec::new(),
            writing: false,
            failed: None,
        }
    }

    /// Returns the free part of the receive buffer. Unprocessed bytes are moved to the front first. They are shorter
    /// than one record, because complete records have already been processed.
    pub(super) fn free_space(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.incoming.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.incoming.len() {
            self.incoming.resize(self.end.saturating_mul(2).max(INITIAL_CAPACITY), 0);
        }
        self.incoming.get_mut(self.end..).unwrap_or_default()
    }

    /// Records that `count` bytes were written into the free part.
    pub(super) fn filled(&mut self, count: usize) {
        self.end = self.end.saturating_add(count).min(self.incoming.len());
        // If the read filled the buffer, more bytes are probably waiting in the socket.
        if self.end == self.incoming.len() && self.end < MAX_CAPACITY {
            self.incoming.resize((self.end * 4).min(MAX_CAPACITY), 0);
        }
    }

    /// Processes the received bytes of the handshake. Returns true when the handshake is complete.
    pub(super) fn drive_handshake(&mut self) -> Result<bool, rustls::Error> {
        loop {
            let incoming = self.incoming.get_mut(self.start..self.end).unwrap_or_default();
            let mut status = self.connection.process_tls_records(incoming);
            let mut done = None;
            let state = match status.state {
                Ok(state) => state,
                Err(error) => {
                    self.start += status.discard;
                    self.encode_alert();
                    return Err(error);
                }
            };
            match state {
                ConnectionState::EncodeTlsData(mut message) => {
                    encode(&mut self.out, |into| message.encode(into))?;
                }
                ConnectionState::TransmitTlsData(sent) => sent.done(),
                ConnectionState::WriteTraffic(_) => done = Some(true),
                ConnectionState::ReadTraffic(mut records) => {
                    while let Some(record) = records.next_record() {
                        let record = record?;
                        status.discard += record.discard;
                        self.plain.extend_from_slice(record.payload);
                    }
                }
                ConnectionState::BlockedHandshake => done = Some(false),
                // Any other state, for example `PeerClosed`, ends the handshake.
                _ => return Err(rustls::Error::HandshakeNotComplete),
            }
            self.start += status.discard;
            if let Some(done) = done {
                return Ok(done);
            }
        }
    }

    /// Decrypts received records and passes up to `max` bytes to `put`. Further bytes are kept for the next call.
    pub(super) fn read(&mut self, max: usize, put: &mut dyn FnMut(&[u8])) -> Result<Step, rustls::Error> {
        let mut read = 0;
        if self.returned < self.plain.len() {
            let kept = self.plain.get(self.returned..).unwrap_or_default();
            let some = kept.get(..max).unwrap_or(kept);
            put(some);
            read = some.len();
            self.returned += read;
            if self.returned == self.plain.len() {
                self.plain.clear();
                self.returned = 0;
            }
        }
        while read < max {
            self.check_usable()?;
            let incoming = self.incoming.get_mut(self.start..self.end).unwrap_or_default();
            let mut status = self.connection.process_tls_records(incoming);
            let mut stop = None;
            match record_failure(&mut self.failed, status.state)? {
                ConnectionState::ReadTraffic(mut records) => {
                    while let Some(record) = records.next_record() {
                        let record = record?;
                        status.discard += record.discard;
                        let (now, later) = record.payload.split_at(record.payload.len().min(max - read));
                        put(now);
                        read += now.len();
                        self.plain.extend_from_slice(later);
                    }
                }
                ConnectionState::EncodeTlsData(mut message) => {
                    encode(&mut self.out, |into| message.encode(into))?;
                }
                ConnectionState::TransmitTlsData(sent) => sent.done(),
                ConnectionState::PeerClosed | ConnectionState::Closed => stop = Some(Step::Ended),
                _ => stop = Some(Step::Blocked),
            }
            self.start += status.discard;
            match stop {
                Some(stop) if read == 0 => return Ok(stop),
                Some(_) => break,
                None => {}
            }
        }
        Ok(Step::Read(read))
    }

    /// Returns the error of a failed session, so that rustls does not process the same bytes again.
    fn check_usable(&self) -> Result<(), rustls::Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Calls `write` when rustls is ready to send. Data received before that is kept for the reader.
    pub(super) fn with_traffic<T>(
        &mut self,
        mut write: impl FnMut(WriteTraffic<'_, rustls::client::ClientConnectionData>) -> T,
    ) -> Result<T, rustls::Error> {
        loop {
            self.check_usable()?;
            let incoming = self.incoming.get_mut(self.start..self.end).unwrap_or_default();
            let mut status = self.connection.process_tls_records(incoming);
            let mut written = None;
            match record_failure(&mut self.failed, status.state)? {
                ConnectionState::WriteTraffic(traffic) => written = Some(write(traffic)),
                ConnectionState::ReadTraffic(mut records) => {
                    while let Some(record) = records.next_record() {
                        let record = record?;
                        status.discard += record.discard;
                        self.plain.extend_from_slice(record.payload);
                    }
                }
                ConnectionState::EncodeTlsData(mut message) => {
                    encode(&mut self.out, |into| message.encode(into))?;
                }
                ConnectionState::TransmitTlsData(sent) => sent.done(),
                ConnectionState::PeerClosed => {}
                _ => return Err(rustls::Error::HandshakeNotComplete),
            }
            self.start += status.discard;
            if let Some(written) = written {
                return Ok(written);
            }
        }
    }

    /// Encrypts `plain` and appends it to `sealed`.
    pub(super) fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> Result<(), rustls::Error> {
        let start = sealed.len();
        let mut capacity = plain.len() + plain.len().div_ceil(MAX_PAYLOAD) * MAX_OVERHEAD;
        loop {
            sealed.resize(start + capacity, 0);
            let into = sealed.get_mut(start..).unwrap_or_default();
            match self.with_traffic(|mut traffic| traffic.encrypt(plain, into))? {
                Ok(written) => {
                    sealed.truncate(start + written);
                    // If rustls has queued a key update, it must be sent first (RFC 8446 §4.6.3).
                    if self.connection.wants_write() {
                        self.with_traffic(|_| ())?;
                    }
                    if !self.out.is_empty() {
                        sealed.splice(start..start, self.out.drain(..));
                    }
                    return Ok(());
                }
                Err(EncryptError::InsufficientSize(need)) if need.required_size > capacity => {
                    capacity = need.required_size
                }
                Err(error) => return Err(rustls::Error::General(error.to_string())),
            }
        }
    }

    /// Encodes pending alerts into `out`, without returning received data.
    pub(super) fn encode_alert(&mut self) {
        while self.connection.wants_write() {
            let incoming = self.incoming.get_mut(self.start..self.end).unwrap_or_default();
            match self.connection.process_tls_records(incoming).state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    if encode(&mut self.out, |into| message.encode(into)).is_err() {
                        return;
                    }
                }
                Ok(ConnectionState::ReadTraffic(mut records)) => while records.next_record().is_some() {},
                _ => return,
            }
        }
    }
}

/// Stores the error if it ended the session.
fn record_failure<T>(failed: &mut Option<rustls::Error>, state: Result<T, rustls::Error>) -> Result<T, rustls::Error> {
    if let Err(error) = &state {
        *failed = Some(error.clone());
    }
    state
}

/// Appends a handshake message to `out`.
fn encode(
    out: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), rustls::Error> {
    let start = out.len();
    let mut capacity = 0;
    loop {
        out.resize(start + capacity, 0);
        match encode(out.get_mut(start..).unwrap_or_default()) {
            Ok(written) => {
                out.truncate(start + written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(need)) if need.required_size > capacity => capacity = need.required_size,
            Err(error) => return Err(rustls::Error::General(error.to_string())),
        }
    }
}
