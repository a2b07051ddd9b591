//! The answer to a Fetch, taken off the socket in chunks that are decoded while they are still in the cache.
//!
//! A chunk ends where a record batch ends. The buffer is read up to the end of the batch that would be cut, so that
//! bytes are moved only where a batch is larger than the room for it.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use samsarrow_wire::messages::{FetchEvent, FetchParser};

use crate::error::{Error, Result};
use crate::net::FrameBody;

/// A chunk has this many bytes, and then the rest of its last batch. Decoded columns are about as large, and both fit
/// the second-level cache.
const CHUNK: usize = 512 << 10;
/// Size of a buffer: a chunk, and the rest of its last batch if that has a usual size.
const BUFFER: usize = 768 << 10;
/// Memory for a batch that is larger grows by as much as has come, and not to what its length claims.
const GROWTH: usize = 4 << 20;
/// Free space below which a read is not worth a system call.
const LEAST_ROOM: usize = 4 << 10;
/// Buffers that wait until nothing points into them any more.
const POOLED: usize = 8;
/// Base offset and length, which start every batch and every older message.
const PREFIX: usize = 12;
/// The shortest length that a message of any format can have.
const SHORTEST: usize = 14;

/// Buffers of answers that were read; reused once nothing points into them.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    current: BytesMut,
    retired: VecDeque<BytesMut>,
}

impl Buffers {
    /// Reserves space for `wanted` more bytes in the current buffer, or in a new one.
    fn make_room(&mut self, wanted: usize) {
        if self.current.capacity() - self.current.len() >= wanted.min(LEAST_ROOM) {
            return;
        }
        let size = BUFFER.max(self.current.len() + wanted.min(GROWTH));
        let reused = self.retired.iter_mut().position(|buffer| buffer.try_reclaim(size));
        let mut next = match reused.and_then(|at| self.retired.remove(at)) {
            Some(buffer) => buffer,
            None => BytesMut::with_capacity(size),
        };
        next.extend_from_slice(&self.current);
        let mut full = std::mem::replace(&mut self.current, next);
        full.clear();
        if self.retired.len() == POOLED {
            self.retired.pop_front();
        }
        self.retired.push_back(full);
    }
}

/// One thing that an answer says.
#[derive(Debug)]
pub(super) enum Told {
    Event(FetchEvent),
    /// Whole record batches of the partition at hand; or bytes that are none, for the decoder to complain of.
    Records(Bytes),
    /// Bytes at the end of the partition's records that are no whole batch.
    Cut(usize),
}

/// End of the complete batches of a partition, as far as known.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Edges {
    /// Bytes of whole batches.
    whole: usize,
    /// Bytes missing of the next batch; 0 if unknown.
    lacks: usize,
    /// The batch after them goes beyond the partition's records.
    cut: bool,
}

impl Edges {
    /// Advances over `here`, the first bytes of `all` bytes of records.
    fn scan(&mut self, here: &[u8], all: usize) {
        self.lacks = 0;
        while let Some(prefix) = here.get(self.whole..).and_then(<[u8]>::first_chunk::<PREFIX>) {
            let [.., a, b, c, d] = *prefix;
            // Bytes with a negative length become a chunk that the decoder rejects.
            let length = usize::try_from(i32::from_be_bytes([a, b, c, d])).unwrap_or(0);
            // Bytes that are no batch become a chunk of their own.
            let size = if length < SHORTEST { all - self.whole } else { PREFIX + length };
            let end = self.whole.saturating_add(size);
            if end > all {
                self.cut = true;
                return;
            }
            if end > here.len() {
                self.lacks = end - here.len();
                return;
            }
            self.whole = end;
        }
    }
}

/// An answer that is being read.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    body: FrameBody,
    parser: FetchParser,
    buffers: &'a mut Buffers,
    edges: Edges,
}

impl<'a> Answer<'a> {
    pub(super) fn new(body: FrameBody, version: i16, buffers: &'a mut Buffers) -> Self {
        buffers.current.clear();
        let parser = FetchParser::new(version, body.left());
        Self { body, parser, buffers, edges: Edges::default() }
    }

    /// Returns the next event; [`FetchEvent::End`] is the last.
    ///
    /// # Errors
    /// The connection broke, or the bytes are no answer to Fetch: the connection is given up then.
    pub(super) async fn next(&mut self) -> Result<Told> {
        loop {
            let told = if self.parser.records_left() > 0 { self.records() } else { self.event()? };
            match told {
                Next::Told(told) => return Ok(told),
                Next::Again => {}
                Next::Read(most) => {
                    self.buffers.make_room(most);
                    if self.body.left() == 0 {
                        return Err(self.not_an_answer("it ends too early"));
                    }
                    self.body.read(&mut self.buffers.current, most).await?;
                }
            }
        }
    }

    /// Returns true if the remainder is in the buffer already.
    pub(super) fn is_at_its_end(&self) -> bool {
        self.body.left() == 0
    }

    fn event(&mut self) -> Result<Next> {
        match self.parser.next(&mut self.buffers.current) {
            Ok(Some(event)) => {
                self.edges = Edges::default();
                Ok(Next::Told(Told::Event(event)))
            }
            Ok(None) if self.parser.records_left() > 0 => Ok(Next::Again),
            Ok(None) => Ok(Next::Read(CHUNK)),
            Err(error) => Err(self.not_an_answer(error)),
        }
    }

    fn not_an_answer(&mut self, why: impl std::fmt::Display) -> Error {
        let reason = format!("the answer to Fetch is not what it should be: {why}");
        let error = Error::protocol(self.body.address(), reason);
        self.body.break_off(error.clone());
        error
    }

    fn records(&mut self) -> Next {
        let buffer = &mut self.buffers.current;
        let left = self.parser.records_left();
        let here = buffer.len().min(left);
        if !self.edges.cut {
            self.edges.scan(buffer.get(..here).unwrap_or_default(), left);
        }
        let Edges { whole, lacks, cut } = self.edges;
        if cut && whole == 0 {
            return self.pass(left);
        }
        let room = buffer.capacity() - buffer.len();
        let stop = here == left || cut || (whole >= CHUNK && (whole == here || lacks > room));
        if whole > 0 && stop {
            self.edges.whole = 0;
            self.parser.take_records(whole);
            return Next::Told(Told::Records(buffer.split_to(whole).freeze()));
        }
        if here == left {
            // Fewer bytes than a batch starts with.
            return self.pass(left);
        }
        Next::Read(match lacks {
            0 => CHUNK.saturating_sub(here).max(PREFIX),
            lacks if here < CHUNK => lacks.max(CHUNK - here),
            lacks => lacks,
        })
    }

    /// Passes over the cut batch at the end of the partition's records.
    fn pass(&mut self, left: usize) -> Next {
        let buffer = &mut self.buffers.current;
        let here = buffer.len().min(left);
        buffer.advance(here);
        self.parser.take_records(here);
        if here < left {
            self.edges = Edges { cut: true, whole: 0, lacks: 0 };
            return if here > 0 { Next::Told(Told::Cut(here)) } else { Next::Read(CHUNK) };
        }
        Next::Told(Told::Cut(here))
    }
}

enum Next {
    Told(Told),
    Again,
    /// At most this many bytes more.
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

    fn edges(here: &[u8], all: usize) -> (usize, usize, bool) {
        let mut edges = Edges::default();
        edges.scan(here, all);
        (edges.whole, edges.lacks, edges.cut)
    }

    #[test]
    fn batches_are_found_as_far_as_they_are_here() {
        let data = [batch(100), batch(50), batch(70)].concat();
        assert_eq!(edges(&data, 220), (220, 0, false));
        assert_eq!(edges(&data[..219], 220), (150, 1, false));
        assert_eq!(edges(&data[..155], 220), (150, 0, false));
        assert_eq!(edges(&data[..5], 220), (0, 0, false));
        assert_eq!(edges(&data[..200], 200), (150, 0, true));
        assert_eq!(edges(&data[..20], 99), (0, 0, true));
    }

    #[test]
    fn what_is_no_batch_is_one_chunk() {
        let mut data = [batch(100), batch(50)].concat();
        data[108..112].copy_from_slice(&(-7i32).to_be_bytes());
        assert_eq!(edges(&data[..120], 150), (100, 30, false));
        assert_eq!(edges(&data, 150), (150, 0, false));
        data[108..112].copy_from_slice(&i32::MAX.to_be_bytes());
        assert_eq!(edges(&data, 150), (100, 0, true));
    }
}
