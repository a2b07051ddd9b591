//! Bytes of an answer off the socket, as they come, and what can go wrong there.

use std::time::Duration;

use bytes::BytesMut;
use tokio::time::timeout;

use super::timeouts::RequestTimeout;
use super::transport::Reader;
use crate::error::{Error, Result};

/// A frame is read in steps of this size, so that memory grows with what arrives and not with what a length claims.
pub(super) const READ_STEP: usize = 1 << 20;

pub(super) const CLOSED: &str = "the broker closed the connection";

/// The first bytes of an answer: its length as far as it is there, and how much that is.
pub(super) type Begun = ([u8; 4], usize);

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
pub(super) async fn read_some(reader: &mut Reader, address: &str, into: &mut BytesMut, most: usize) -> Result<()> {
    if reader.read_some(into, most).await.map_err(|e| broke(address, &e))? == 0 {
        return Err(Error::connection(address, "the broker closed the connection in the middle of an answer"));
    }
    Ok(())
}
