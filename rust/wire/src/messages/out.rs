//! Output buffers of encoded messages.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::{Deref, DerefMut};

use bytes::{Buf, Bytes, BytesMut};

/// Minimum size of a bytes field that is shared instead of copied: for smaller fields a copy costs less than a slice.
const WORTH_SHARING: usize = 16 * 1024;

/// Buffer of a message being encoded.
#[derive(Debug, Default)]
pub struct Out {
    own: BytesMut,
    /// Fields that are not copied, each with its offset in `own`.
    shared: Vec<(usize, Bytes)>,
    sharing: bool,
}

impl Out {
    /// Creates a buffer for a contiguous message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a buffer for a message whose large fields are shared, not copied.
    pub fn sharing() -> Self {
        Self { sharing: true, ..Self::default() }
    }

    /// Returns the length of the message in bytes.
    pub(crate) fn total(&self) -> usize {
        self.own.len() + self.shared.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    }

    pub(crate) fn put_field(&mut self, bytes: &Bytes) {
        if self.sharing && bytes.len() >= WORTH_SHARING {
            self.shared.push((self.own.len(), bytes.clone()));
        } else {
            self.own.extend_from_slice(bytes);
        }
    }

    /// Returns the message as one contiguous buffer.
    pub fn freeze(self) -> Bytes {
        if self.shared.is_empty() {
            return self.own.freeze();
        }
        let mut frame = self.into_frame();
        frame.copy_to_bytes(frame.remaining())
    }

    pub(crate) fn into_frame(self) -> Frame {
        let mut own = self.own.freeze();
        let mut pieces = VecDeque::with_capacity(2 * self.shared.len() + 1);
        let mut cut = 0;
        for (place, shared) in self.shared {
            let before = own.split_to((place - cut).min(own.len()));
            cut = place;
            pieces.extend([before, shared]);
        }
        pieces.push_back(own);
        pieces.retain(|piece| !piece.is_empty());
        Frame { pieces }
    }
}

impl Deref for Out {
    type Target = BytesMut;

    fn deref(&self) -> &BytesMut {
        &self.own
    }
}

impl DerefMut for Out {
    fn deref_mut(&mut self) -> &mut BytesMut {
        &mut self.own
    }
}

/// A frame as a sequence of buffers to write.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// Buffers, none of them empty.
    pieces: VecDeque<Bytes>,
}

impl Buf for Frame {
    fn remaining(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&[], |piece| &piece[..])
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        slices.iter_mut().zip(&self.pieces).map(|(slice, piece)| *slice = IoSlice::new(piece)).count()
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(first) = self.pieces.front_mut() {
            if count < first.len() {
                first.advance(count);
                return;
            }
            count -= first.len();
            self.pieces.pop_front();
        }
        debug_assert_eq!(count, 0, "advanced past the end of a frame");
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;

    use super::*;

    #[test]
    fn large_fields_are_shared_and_come_out_in_their_place() {
        let large = Bytes::from(vec![7; WORTH_SHARING]);
        let small = Bytes::from_static(b"small");
        let fill = |mut out: Out| {
            out.put_u8(1);
            out.put_field(&large);
            out.put_field(&small);
            out.put_field(&large);
            assert_eq!(out.total(), 2 * WORTH_SHARING + 6);
            out
        };
        let plain = fill(Out::new()).freeze();
        assert_eq!(fill(Out::sharing()).freeze(), plain);
        let mut frame = fill(Out::sharing()).into_frame();
        assert!(frame.pieces.iter().any(|piece| piece.as_ptr() == large.as_ptr()));
        // Any number of bytes per write, as with a socket.
        let mut written = Vec::new();
        for step in (1..).map(|n| n * 1000) {
            let mut slices = [IoSlice::new(&[]); 3];
            let count = frame.chunks_vectored(&mut slices);
            let some: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).take(step).collect();
            if some.is_empty() {
                break;
            }
            frame.advance(some.len());
            written.extend(some);
        }
        assert_eq!(written, plain);
        assert!(!frame.has_remaining());
    }
}
