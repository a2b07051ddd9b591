//! An answer that is read off the socket by the one who asked.

use bytes::BytesMut;
use tokio::time::timeout;

use super::in_flight::FrameBody;
use super::read_frame::{read_some, rest_late};
use crate::error::{Error, Result};

/// An answer that nobody waits for is thrown away in steps of this size.
const DISCARD_STEP: usize = 1 << 16;

impl std::fmt::Debug for FrameBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameBody").field("address", &self.shared.address).field("left", &self.left).finish()
    }
}

impl FrameBody {
    /// Reads all of it, for nobody.
    pub(super) async fn discard(mut self) -> Result<()> {
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
