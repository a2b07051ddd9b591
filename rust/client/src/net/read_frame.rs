//! Reads response bytes from the socket, and creates the errors of failed reads.

use std::time::Duration;

use bytes::BytesMut;
use tokio::time::timeout;

use super::timeouts::RequestTimeout;
use super::transport::Reader;
use crate::error::{Error, Result};

/// Size of the steps in which a frame is read, so that memory grows with the bytes received and not with the length
/// that the frame claims.
pub(super) const READ_STEP: usize = 1 << 20;

pub(super) const CLOSED: &str = "the broker closed the connection";

/// The start of a response: the length field, possibly incomplete, and the number of its bytes received so far.
pub(super) type FrameStart = ([u8; 4], usize);

pub(super) fn body_timeout(address: &str, limit: Duration) -> Error {
    Error::timeout(format!("the rest of a response from {address}"), limit)
}

pub(super) fn read_error(address: &str, e: &std::io::Error) -> Error {
    match e.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::connection(address, CLOSED),
        _ => Error::io(address, "the connection broke", e),
    }
}

/// Reads the rest of a frame. The time limit applies to each step, because a large response over a slow connection may
/// take longer in total.
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
        read.unwrap_or_else(|_| Err(body_timeout(address, limit.0)))?;
    }
    Ok(())
}

/// Reads the available bytes into the spare capacity of `into`: at least one byte, at most `max` bytes.
pub(super) async fn read_some(reader: &mut Reader, address: &str, into: &mut BytesMut, max: usize) -> Result<()> {
    if reader.read_some(into, max).await.map_err(|e| read_error(address, &e))? == 0 {
        return Err(Error::connection(address, "the broker closed the connection in the middle of a response"));
    }
    Ok(())
}
