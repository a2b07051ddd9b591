//! A TLS session without its socket: what came in, what it holds, and what is to go out.

use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, WriteTraffic};

/// Room for one record of the largest size, which a connection has at first (RFC 8446 §5.2, RFC 5246 §6.2.3).
const SMALL: usize = 5 + (1 << 14) + 2048;
/// Room where as much comes as there is room for.
const LARGE: usize = 1 << 18;
/// The most that a record holds.
pub(super) const RECORD: usize = 1 << 14;
/// What a record is longer than what it holds, at most.
pub(super) const OVERHEAD: usize = 64;

/// What both ways share.
pub(super) struct Session {
    connection: UnbufferedClientConnection,
    /// What was received, from `start` to `end`; what is behind that is room.
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    /// What was decrypted when nobody had room for it.
    plain: Vec<u8>,
    /// As much of that was taken.
    taken: usize,
    /// To be sent before anything else.
    pub(super) out: Vec<u8>,
    /// Part of a record may be on its way: nothing may be sent in between.
    pub(super) writing: bool,
    /// Why it is of no more use.
    pub(super) failed: Option<rustls::Error>,
}

/// How far a session came.
pub(super) enum Step {
    /// All was taken that is there, or that there was room for.
    Read(usize),
    /// More must come in.
    Blocked,
    /// Nothing more will come in.
    Ended,
}

impl Session {
    pub(super) fn new(connection: UnbufferedClientConnection) -> Self {
        Self {
            connection,
            incoming: vec![0; SMALL],
            start: 0,
            end: 0,
            plain: Vec::new(),
            taken: 0,
            out: Vec::new(),
            writing: false,
            failed: None,
        }
    }

    /// Room for what comes in. What was received and not used moves to the front: after all whole records were used
    /// that is less than one.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.incoming.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.incoming.len() {
            self.incoming.resize(self.end.saturating_mul(2).max(SMALL), 0);
        }
        self.incoming.get_mut(self.end..).unwrap_or_default()
    }

    /// So much was put into the room.
    pub(super) fn came(&mut self, count: usize) {
        self.end = self.end.saturating_add(count).min(self.incoming.len());
        // As much as there was room for: there is more where it came from.
        if self.end == self.incoming.len() && self.end < LARGE {
            self.incoming.resize((self.end * 4).min(LARGE), 0);
        }
    }

    /// As far in the handshake as what came in leads; whether it is done.
    pub(super) fn shake(&mut self) -> Result<bool, rustls::Error> {
        loop {
            let incoming = self.incoming.get_mut(self.start..self.end).unwrap_or_default();
            let mut status = self.connection.process_tls_records(incoming);
            let mut done = None;
            let state = match status.state {
                Ok(state) => state,
                Err(error) => {
                    self.start += status.discard;
                    self.last_words();
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
                // What was sent last explains itself when it is read.
                _ => return Err(rustls::Error::HandshakeNotComplete),
            }
            self.start += status.discard;
            if let Some(done) = done {
                return Ok(done);
            }
        }
    }

    /// Decrypts what is there into `put`, until `room` is taken. What is too much for it is kept.
    pub(super) fn read(&mut self, room: usize, put: &mut dyn FnMut(&[u8])) -> Result<Step, rustls::Error> {
        let mut read = 0;
        if self.taken < self.plain.len() {
            let kept = self.plain.get(self.taken..).unwrap_or_default();
            let some = kept.get(..room).unwrap_or(kept);
            put(some);
            read = some.len();
            self.taken += read;
            if self.taken == self.plain.len() {
                self.plain.clear();
                self.taken = 0;
            }
        }
        while read < room {
            self.usable()?;
            let incoming = self.incoming.get_mut(self.start..self.end).unwrap_or_default();
            let mut status = self.connection.process_tls_records(incoming);
            let mut stop = None;
            match noted(&mut self.failed, status.state)? {
                ConnectionState::ReadTraffic(mut records) => {
                    while let Some(record) = records.next_record() {
                        let record = record?;
                        status.discard += record.discard;
                        let (now, later) = record.payload.split_at(record.payload.len().min(room - read));
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

    /// What has failed must not be gone on with: rustls would find the same fault again in the same bytes.
    fn usable(&self) -> Result<(), rustls::Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Once rustls may write: what came in meanwhile is kept for the reader.
    pub(super) fn with_traffic<T>(
        &mut self,
        mut write: impl FnMut(WriteTraffic<'_, rustls::client::ClientConnectionData>) -> T,
    ) -> Result<T, rustls::Error> {
        loop {
            self.usable()?;
            let incoming = self.incoming.get_mut(self.start..self.end).unwrap_or_default();
            let mut status = self.connection.process_tls_records(incoming);
            let mut written = None;
            match noted(&mut self.failed, status.state)? {
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

    /// Encrypts `plain` behind what is in `sealed`.
    pub(super) fn seal(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> Result<(), rustls::Error> {
        let start = sealed.len();
        let mut room = plain.len() + plain.len().div_ceil(RECORD) * OVERHEAD;
        loop {
            sealed.resize(start + room, 0);
            let into = sealed.get_mut(start..).unwrap_or_default();
            match self.with_traffic(|mut traffic| traffic.encrypt(plain, into))? {
                Ok(written) => {
                    sealed.truncate(start + written);
                    // New keys may have been needed for it: they are announced first (RFC 8446 §4.6.3).
                    if self.connection.wants_write() {
                        self.with_traffic(|_| ())?;
                    }
                    if !self.out.is_empty() {
                        sealed.splice(start..start, self.out.drain(..));
                    }
                    return Ok(());
                }
                Err(EncryptError::InsufficientSize(need)) if need.required_size > room => room = need.required_size,
                Err(error) => return Err(rustls::Error::General(error.to_string())),
            }
        }
    }

    /// The alert that says why this side gives up, if there is one. Nothing is read for it: it waits to be sent.
    pub(super) fn last_words(&mut self) {
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

/// Notes why a session is of no more use.
fn noted<T>(failed: &mut Option<rustls::Error>, state: Result<T, rustls::Error>) -> Result<T, rustls::Error> {
    if let Err(error) = &state {
        *failed = Some(error.clone());
    }
    state
}

/// Has a message of a handshake appended to `out`.
fn encode(
    out: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), rustls::Error> {
    let start = out.len();
    let mut room = 0;
    loop {
        out.resize(start + room, 0);
        match encode(out.get_mut(start..).unwrap_or_default()) {
            Ok(written) => {
                out.truncate(start + written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(need)) if need.required_size > room => room = need.required_size,
            Err(error) => return Err(rustls::Error::General(error.to_string())),
        }
    }
}
