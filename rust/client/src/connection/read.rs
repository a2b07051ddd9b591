//! What comes in on a connection: answers, read whole or by those who asked.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::limits::RequestTimeout;
use super::raw::{LOGIN_LIMIT, read_raw, too_much_for_a_login};
use super::transport::Reader;
use super::waiting::{Reply, Shared};
use crate::error::{Error, Result};

/// A frame is read in steps of this size, so that memory grows with what arrives and not with what a length claims.
const READ_STEP: usize = 1 << 20;
/// An answer that nobody waits for is thrown away in steps of this size.
const DISCARD_STEP: usize = 1 << 16;

const CLOSED: &str = "the broker closed the connection";

pub(super) async fn read_all(mut reader: Reader, shared: Arc<Shared>, limit: usize, idle: Option<Duration>) {
    loop {
        let answer = async {
            let begun = wait_for_answer(&mut reader, &shared, idle).await?;
            read_answer(reader, begun, &shared, limit).await
        };
        reader = match answer.await {
            Ok(reader) => reader,
            Err(error) => {
                shared.poison(error);
                return;
            }
        };
    }
}

/// The first bytes of an answer: its length as far as it is there, and how much that is.
pub(super) type Begun = ([u8; 4], usize);

/// Returns when an answer begins, for which no broker may keep us waiting for too long. A frame is never given up half
/// read, and no wait for an answer is idleness.
async fn wait_for_answer(reader: &mut Reader, shared: &Shared, idle: Option<Duration>) -> Result<Begun> {
    let address = &shared.address;
    let mut length = [0; 4];
    loop {
        let overdue = async {
            match shared.look_at(idle) {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            read = reader.read(&mut length) => return match read.map_err(|e| broke(address, &e))? {
                0 => Err(Error::connection(address, CLOSED)),
                read => Ok((length, read)),
            },
            () = shared.asked.notified() => {}
            () = overdue => if let Some(error) = shared.overdue(idle) {
                return Err(error);
            }
        }
    }
}

/// Reads one answer for the oldest waiter, whose it must be, or lets that waiter read it.
async fn read_answer(
    mut reader: Reader,
    (mut length, begun): Begun,
    shared: &Arc<Shared>,
    limit: usize,
) -> Result<Reader> {
    let address = &shared.address;
    if shared.is_raw() {
        return read_raw(reader, (length, begun), shared, limit).await;
    }
    let patience = shared.waiting().pending.front().map_or(Duration::MAX, |oldest| oldest.limit.0);
    let head = async {
        let rest = length.get_mut(begun..).unwrap_or_default();
        reader.read_exact(rest).await.map_err(|e| broke(address, &e))?;
        // Anyone who does not speak Kafka may never send more than this.
        let size =
            frame_size(length, limit, shared.logs_in()).map_err(|reason| Error::protocol(address.clone(), reason))?;
        let mut id = [0; 4];
        reader.read_exact(&mut id).await.map_err(|e| broke(address, &e))?;
        Ok((size, id))
    };
    let (size, id) = timeout(patience, head).await.unwrap_or_else(|_| Err(rest_late(address, patience)))?;
    let found = i32::from_be_bytes(id);
    let Some(pending) = shared.take_oldest() else {
        return Err(Error::protocol(address.clone(), "an answer to nothing that was asked"));
    };
    if pending.correlation_id != found {
        let reason = format!("an answer with correlation id {found} instead of {}", pending.correlation_id);
        let error = Error::protocol(address.clone(), reason);
        pending.reply.fail(error.clone());
        return Err(error);
    }
    if let Some(meter) = shared.meter.get() {
        let left = pending.expires.saturating_duration_since(Instant::now());
        meter.answered(pending.api, size + 4, pending.limit.0.saturating_sub(left));
    }
    let given_up = pending.reply.is_given_up();
    match pending.reply {
        Reply::Whole(reply) if !given_up => {
            let mut frame = BytesMut::with_capacity(size.min(READ_STEP));
            frame.extend_from_slice(&id);
            let rest = read_rest(&mut reader, address, &mut frame, size, pending.limit).await;
            let _ = reply.send(rest.clone().map(|()| frame.freeze()));
            rest.map(|()| reader)
        }
        reply => {
            let (back, returned) = oneshot::channel();
            let way = Some((reader, back));
            let body = FrameBody { way, left: size - 4, limit: pending.limit.0, shared: Arc::clone(shared) };
            let unwanted = match reply {
                Reply::Body(reply) => reply.send(Ok(body)).err().and_then(Result::ok),
                Reply::Whole(_) | Reply::Raw(_) => Some(body),
            };
            if let Some(body) = unwanted {
                tracing::debug!(address, api = pending.api, "a response arrived after its caller had stopped waiting");
                body.discard().await?;
            }
            // Anyone who drops it half read has broken the connection and has said why.
            returned.await.map_err(|_| Error::connection(address.clone(), "an answer was given up half read"))
        }
    }
}

pub(super) fn rest_late(address: &str, limit: Duration) -> Error {
    Error::timeout(format!("the rest of an answer from {address}"), limit)
}

pub(super) fn broke(address: &str, e: &std::io::Error) -> Error {
    match e.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::connection(address, CLOSED),
        _ => Error::io(address, "the connection broke", e),
    }
}

/// A large answer over a slow link may take its time, as long as something comes.
pub(super) async fn read_rest(
    reader: &mut Reader,
    address: &str,
    frame: &mut BytesMut,
    size: usize,
    limit: RequestTimeout,
) -> Result<()> {
    while frame.len() < size {
        frame.reserve(READ_STEP.min(size - frame.len()));
        let more = size - frame.len();
        let read = timeout(limit.0, read_some(reader, address, frame, more)).await;
        read.unwrap_or_else(|_| Err(rest_late(address, limit.0)))?;
    }
    Ok(())
}

/// Reads what is there into the room that `into` has, at most `most` bytes, one at least.
async fn read_some(reader: &mut Reader, address: &str, into: &mut BytesMut, most: usize) -> Result<()> {
    if reader.read_some(into, most).await.map_err(|e| broke(address, &e))? == 0 {
        return Err(Error::connection(address, "the broker closed the connection in the middle of an answer"));
    }
    Ok(())
}

/// The rest of an answer after its correlation id, to be read off the socket by the one who asked.
///
/// Dropped before its end, it breaks the connection: nobody could know where the next answer starts.
pub struct FrameBody {
    way: Option<(Reader, oneshot::Sender<Reader>)>,
    left: usize,
    limit: Duration,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for FrameBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameBody").field("address", &self.shared.address).field("left", &self.left).finish()
    }
}

impl FrameBody {
    /// Reads all of it, for nobody.
    async fn discard(mut self) -> Result<()> {
        let mut scratch = BytesMut::with_capacity(DISCARD_STEP);
        while self.left > 0 {
            scratch.clear();
            self.read(&mut scratch, DISCARD_STEP).await?;
        }
        Ok(())
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// Bytes that were not read yet.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Reads what is there into the room that `into` has, at most `most` bytes, one at least unless all is read.
    ///
    /// # Errors
    /// The connection broke, or nothing came for as long as an answer may take.
    pub async fn read(&mut self, into: &mut BytesMut, most: usize) -> Result<()> {
        let before = into.len();
        let most = most.min(self.left);
        if most == 0 || into.capacity() == before {
            return Ok(());
        }
        let (address, limit) = (&self.shared.address, self.limit);
        let Some((reader, _)) = &mut self.way else { return Ok(()) };
        let read = match timeout(limit, read_some(reader, address, into, most)).await {
            Ok(read) => read,
            Err(_) => Err(rest_late(address, limit)),
        };
        if let Err(error) = read {
            self.break_off(error.clone());
            return Err(error);
        }
        self.left -= (into.len() - before).min(self.left);
        if self.left == 0
            && let Some((reader, back)) = self.way.take()
        {
            let _ = back.send(reader);
        }
        Ok(())
    }

    /// Gives the connection up.
    pub fn break_off(&mut self, error: Error) {
        self.shared.poison(error);
        self.way = None;
    }
}

impl Drop for FrameBody {
    fn drop(&mut self) {
        if let Some((reader, back)) = self.way.take() {
            if self.left == 0 {
                let _ = back.send(reader);
            } else {
                self.shared.poison(Error::connection(self.address(), "an answer was given up half read"));
            }
        }
    }
}

/// The length of a frame, or why it cannot be one.
fn frame_size(bytes: [u8; 4], limit: usize, logs_in: bool) -> std::result::Result<usize, String> {
    match &bytes {
        b"HTTP" => return Err("does not speak Kafka: it answers in HTTP".into()),
        [0x15 | 0x16, 0x03, _, _] => {
            return Err(
                "speaks TLS there, and was spoken to in the clear: set security.protocol=SSL, or SASL_SSL where \
                        there is a login"
                    .into(),
            );
        }
        _ => {}
    }
    let length = i32::from_be_bytes(bytes);
    match usize::try_from(length) {
        Ok(size) if logs_in && size > LOGIN_LIMIT => Err(too_much_for_a_login(size)),
        Ok(size) if (4..=limit).contains(&size) => Ok(size),
        Ok(size) if size > limit => Err(format!(
            "an answer of {size} bytes is more than receive.message.max.bytes ({limit}); or this is not a Kafka broker"
        )),
        _ => Err(format!("does not speak Kafka: an answer of {length} bytes cannot be")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGIN_TOO_MUCH: [u8; 4] = [0, 8, 0, 1];

    #[test]
    fn lengths_that_cannot_be_are_explained() {
        assert_eq!(frame_size(100i32.to_be_bytes(), 1000, false), Ok(100));
        assert!(frame_size(*b"HTTP", 1 << 40, false).unwrap_err().contains("HTTP"));
        assert!(frame_size([0x15, 3, 3, 0], 1 << 40, false).unwrap_err().contains("TLS"));
        assert!(frame_size(2000i32.to_be_bytes(), 1000, false).unwrap_err().contains("receive.message.max.bytes"));
        assert!(frame_size((-1i32).to_be_bytes(), 1000, false).unwrap_err().contains("-1"));
        assert!(frame_size(LOGIN_TOO_MUCH, 1 << 40, true).unwrap_err().contains("during a login"));
        assert!(frame_size(LOGIN_TOO_MUCH, 1 << 40, false).is_ok());
        assert!(frame_size(3i32.to_be_bytes(), 1000, false).unwrap_err().contains("3 bytes"));
    }
}
