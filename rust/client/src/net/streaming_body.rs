//! Response body that the caller reads from the socket.

use bytes::BytesMut;
use tokio::time::timeout;

use super::in_flight::FrameBody;
use super::read_frame::{body_timeout, read_some};
use crate::error::{Error, Result};

/// Size of the steps in which an abandoned response is discarded.
const DISCARD_STEP: usize = 1 << 16;

impl std::fmt::Debug for FrameBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameBody").field("address", &self.shared.address).field("remaining", &self.remaining).finish()
    }
}

impl FrameBody {
    /// Reads and discards the rest of the body.
    pub(super) async fn discard(mut self) -> Result<()> {
        let mut scratch = BytesMut::with_capacity(DISCARD_STEP);
        while self.remaining > 0 {
            scratch.clear();
            self.read(&mut scratch, DISCARD_STEP).await?;
        }
        Ok(())
    }

    /// Returns the broker's address as `host:port`.
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// Returns the number of bytes not read yet.
    pub fn left(&self) -> usize {
        self.remaining
    }

    /// Reads the available bytes into the spare capacity of `into`: at most `max` bytes, and at least one byte unless
    /// the body is already read completely.
    ///
    /// # Errors
    /// Fails if the connection breaks, or if no bytes arrive within the request timeout.
    pub async fn read(&mut self, into: &mut BytesMut, max: usize) -> Result<()> {
        let before = into.len();
        let max = max.min(self.remaining);
        if max == 0 || into.capacity() == before {
            return Ok(());
        }
        if !self.start.is_empty() {
            let start = self.start.split_to(max.min(into.capacity() - before).min(self.start.len()));
            into.extend_from_slice(&start);
            self.received(start.len());
            return Ok(());
        }
        let (address, limit) = (&self.shared.address, self.limit);
        let Some((reader, _)) = &mut self.reader else { return Ok(()) };
        let read = match timeout(limit, read_some(reader, address, into, max)).await {
            Ok(read) => read,
            Err(_) => Err(body_timeout(address, limit)),
        };
        if let Err(error) = read {
            self.break_off(error.clone());
            return Err(error);
        }
        self.received(into.len() - before);
        Ok(())
    }

    /// Counts bytes that were read, and returns the socket after the last one.
    fn received(&mut self, bytes: usize) {
        self.remaining = self.remaining.saturating_sub(bytes);
        if self.remaining == 0
            && let Some((reader, return_reader)) = self.reader.take()
        {
            let _ = return_reader.send(reader);
        }
    }

    /// Breaks the connection.
    pub fn break_off(&mut self, error: Error) {
        self.shared.poison(error);
        self.reader = None;
    }
}

impl Drop for FrameBody {
    fn drop(&mut self) {
        if let Some((reader, return_reader)) = self.reader.take() {
            if self.remaining == 0 {
                let _ = return_reader.send(reader);
            } else {
                self.shared
                    .poison(Error::connection(self.address(), "a response was dropped before it was read completely"));
            }
        }
    }
}
