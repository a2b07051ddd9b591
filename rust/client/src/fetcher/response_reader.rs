//! Streaming reader of Fetch responses: splits a response into chunks that are decoded while they are still in the CPU
//! cache.
//!
//! A chunk ends at a batch boundary. Reads end where the last batch ends, so that an incomplete batch has to be copied
//! to a new buffer only if it is larger than the free space.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use samsarrow_wire::messages::{FetchEvent, FetchParser};

use crate::error::{Error, Result};
use crate::net::FrameBody;

/// Minimum size of a chunk, which ends with its last batch. The decoded columns are about as large as the chunk, and
/// both fit in the second-level cache.
const CHUNK: usize = 512 << 10;
/// Size of a buffer: enough for a chunk and the rest of a last batch of the usual size.
const BUFFER: usize = 768 << 10;
/// Maximum growth of a buffer per read. The memory for a large batch therefore grows with the bytes received, not with the
/// length that its header claims.
const MAX_GROWTH: usize = 4 << 20;
/// Free space below which a read is not worth a system call.
const MIN_FREE_BYTES: usize = 4 << 10;
/// Maximum number of full buffers that are kept for reuse. A buffer can be reused once no record batch refers to it.
const MAX_RETIRED: usize = 8;
/// Size of the base offset and the length, which every batch and every older message begins with.
const PREFIX: usize = 12;
/// Minimum value of the length field of a batch or message of any format.
const MIN_MESSAGE_LENGTH: usize = 14;

/// Receive buffers. A full buffer is reused once no record batch refers to it.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    current: BytesMut,
    retired: VecDeque<BytesMut>,
}

impl Buffers {
    /// Ensures that the current buffer has space for `additional` bytes, or replaces it by another one.
    fn ensure_capacity(&mut self, additional: usize) {
        if self.current.capacity() - self.current.len() >= additional.min(MIN_FREE_BYTES) {
            return;
        }
        let size = BUFFER.max(self.current.len() + additional.min(MAX_GROWTH));
        let reused = self.retired.iter_mut().position(|buffer| buffer.try_reclaim(size));
        let mut next = match reused.and_then(|index| self.retired.remove(index)) {
            Some(buffer) => buffer,
            None => BytesMut::with_capacity(size),
        };
        next.extend_from_slice(&self.current);
        let mut full = std::mem::replace(&mut self.current, next);
        full.clear();
        if self.retired.len() == MAX_RETIRED {
            self.retired.pop_front();
        }
        self.retired.push_back(full);
    }
}

/// A piece of a Fetch response.
#[derive(Debug)]
pub(super) enum ResponseEvent {
    Message(FetchEvent),
    /// Complete record batches of the current partition, or invalid bytes, which the decoder reports.
    Records(Bytes),
    /// Size of the incomplete batch at the end of the partition's records, or of a piece of this batch.
    Cut(usize),
}

/// Batch boundaries in the received records of a partition.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Edges {
    /// Size of the complete batches, in bytes.
    complete: usize,
    /// Number of bytes of the next batch that are still missing; 0 if unknown.
    missing: usize,
    /// True if the next batch is longer than the rest of the partition's records.
    cut: bool,
}

impl Edges {
    /// Advances past the complete batches in `received`, which contains the first of `total` bytes of records.
    fn scan(&mut self, received: &[u8], total: usize) {
        self.missing = 0;
        while let Some(prefix) = received.get(self.complete..).and_then(<[u8]>::first_chunk::<PREFIX>) {
            let [.., a, b, c, d] = *prefix;
            // A negative length is treated as invalid, so that the decoder reports it.
            let length = usize::try_from(i32::from_be_bytes([a, b, c, d])).unwrap_or(0);
            // Invalid bytes up to the end of the records become a separate chunk.
            let size = if length < MIN_MESSAGE_LENGTH { total - self.complete } else { PREFIX + length };
            let end = self.complete.saturating_add(size);
            if end > total {
                self.cut = true;
                return;
            }
            if end > received.len() {
                self.missing = end - received.len();
                return;
            }
            self.complete = end;
        }
    }
}

#[derive(Debug)]
pub(super) struct FetchResponseReader<'a> {
    body: FrameBody,
    parser: FetchParser,
    buffers: &'a mut Buffers,
    edges: Edges,
}

impl<'a> FetchResponseReader<'a> {
    pub(super) fn new(body: FrameBody, version: i16, buffers: &'a mut Buffers) -> Self {
        buffers.current.clear();
        let parser = FetchParser::new(version, body.left());
        Self { body, parser, buffers, edges: Edges::default() }
    }

    /// Returns the next event. The last event is [`FetchEvent::End`].
    ///
    /// # Errors
    /// Fails if the connection breaks, or if the response is invalid; in that case the connection is closed.
    pub(super) async fn next(&mut self) -> Result<ResponseEvent> {
        loop {
            let event = if self.parser.records_left() > 0 { self.records() } else { self.event()? };
            match event {
                Next::Event(event) => return Ok(event),
                Next::Continue => {}
                Next::Read(max) => {
                    self.buffers.ensure_capacity(max);
                    if self.body.left() == 0 {
                        return Err(self.invalid_response("it ends too early"));
                    }
                    self.body.read(&mut self.buffers.current, max).await?;
                }
            }
        }
    }

    /// Returns true if no bytes of the response remain to be read from the socket.
    pub(super) fn is_fully_read(&self) -> bool {
        self.body.left() == 0
    }

    fn event(&mut self) -> Result<Next> {
        match self.parser.next(&mut self.buffers.current) {
            Ok(Some(event)) => {
                self.edges = Edges::default();
                Ok(Next::Event(ResponseEvent::Message(event)))
            }
            Ok(None) if self.parser.records_left() > 0 => Ok(Next::Continue),
            Ok(None) => Ok(Next::Read(CHUNK)),
            Err(error) => Err(self.invalid_response(error)),
        }
    }

    fn invalid_response(&mut self, reason: impl std::fmt::Display) -> Error {
        let text = format!("invalid response to Fetch: {reason}");
        let error = Error::protocol(self.body.address(), text);
        self.body.break_off(error.clone());
        error
    }

    fn records(&mut self) -> Next {
        let buffer = &mut self.buffers.current;
        let left = self.parser.records_left();
        let received = buffer.len().min(left);
        if !self.edges.cut {
            self.edges.scan(buffer.get(..received).unwrap_or_default(), left);
        }
        let Edges { complete, missing, cut } = self.edges;
        if cut && complete == 0 {
            return self.skip_cut_batch(left);
        }
        let free = buffer.capacity() - buffer.len();
        let stop = received == left || cut || (complete >= CHUNK && (complete == received || missing > free));
        if complete > 0 && stop {
            self.edges.complete = 0;
            self.parser.take_records(complete);
            return Next::Event(ResponseEvent::Records(buffer.split_to(complete).freeze()));
        }
        if received == left {
            // The remaining bytes are shorter than the prefix of a batch.
            return self.skip_cut_batch(left);
        }
        Next::Read(match missing {
            0 => CHUNK.saturating_sub(received).max(PREFIX),
            missing if received < CHUNK => missing.max(CHUNK - received),
            missing => missing,
        })
    }

    /// Skips the incomplete batch at the end of the partition's records.
    fn skip_cut_batch(&mut self, left: usize) -> Next {
        let buffer = &mut self.buffers.current;
        let received = buffer.len().min(left);
        buffer.advance(received);
        self.parser.take_records(received);
        if received < left {
            self.edges = Edges { cut: true, complete: 0, missing: 0 };
            return if received > 0 { Next::Event(ResponseEvent::Cut(received)) } else { Next::Read(CHUNK) };
        }
        Next::Event(ResponseEvent::Cut(received))
    }
}

enum Next {
    Event(ResponseEvent),
    Continue,
    /// More bytes are required: read at most this number.
    Read(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        bytes[8..12].copy_from_slice(&(size as i32 - 12).to_be_bytes());
        bytes
    }

    fn edges(received: &[u8], total: usize) -> (usize, usize, bool) {
        let mut edges = Edges::default();
        edges.scan(received, total);
        (edges.complete, edges.missing, edges.cut)
    }

    #[test]
    fn scan_finds_complete_batches() {
        let data = [batch(100), batch(50), batch(70)].concat();
        assert_eq!(edges(&data, 220), (220, 0, false));
        assert_eq!(edges(&data[..219], 220), (150, 1, false));
        assert_eq!(edges(&data[..155], 220), (150, 0, false));
        assert_eq!(edges(&data[..5], 220), (0, 0, false));
        assert_eq!(edges(&data[..200], 200), (150, 0, true));
        assert_eq!(edges(&data[..20], 99), (0, 0, true));
    }

    #[test]
    fn invalid_bytes_are_one_chunk() {
        let mut data = [batch(100), batch(50)].concat();
        data[108..112].copy_from_slice(&(-7i32).to_be_bytes());
        assert_eq!(edges(&data[..120], 150), (100, 30, false));
        assert_eq!(edges(&data, 150), (150, 0, false));
        data[108..112].copy_from_slice(&i32::MAX.to_be_bytes());
        assert_eq!(edges(&data, 150), (100, 0, true));
    }
}
