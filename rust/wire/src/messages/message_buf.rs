//! Output buffers of encoded messages.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::{Deref, DerefMut};

use bytes::{Buf, Bytes, BytesMut};

/// Minimum size of a bytes field that is shared instead of copied. Copying a smaller field costs less than sharing it.
const MIN_SHARED_LEN: usize = 16 * 1024;

/// Buffer for a message that is being encoded.
#[derive(Debug, Default)]
pub struct MessageBuf {
    own: BytesMut,
    /// Fields that are shared instead of copied, each with the position in `own` at which it belongs.
    shared: Vec<(usize, Bytes)>,
    sharing: bool,
}

impl MessageBuf {
    /// Creates a buffer for a contiguous message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a buffer for a message whose large fields are shared instead of copied.
    pub fn sharing() -> Self {
        Self { sharing: true, ..Self::default() }
    }

    /// Returns the length of the message in bytes.
    pub(crate) fn total(&self) -> usize {
        self.own.len() + self.shared.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    }

    pub(crate) fn put_field(&mut self, bytes: &Bytes) {
        if self.sharing && bytes.len() >= MIN_SHARED_LEN {
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
        let mut buffers = VecDeque::with_capacity(2 * self.shared.len() + 1);
        let mut cut = 0;
        for (offset, shared) in self.shared {
            let before = own.split_to((offset - cut).min(own.len()));
            cut = offset;
            buffers.extend([before, shared]);
        }
        buffers.push_back(own);
        buffers.retain(|buffer| !buffer.is_empty());
        Frame { buffers }
    }
}

impl Deref for MessageBuf {
    type Target = BytesMut;

    fn deref(&self) -> &BytesMut {
        &self.own
    }
}

impl DerefMut for MessageBuf {
    fn deref_mut(&mut self) -> &mut BytesMut {
        &mut self.own
    }
}

/// A frame as a sequence of buffers to be written one after the other.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// The buffers, none of which is empty.
    buffers: VecDeque<Bytes>,
}

impl Buf for Frame {
    fn remaining(&self) -> usize {
        self.buffers.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.buffers.front().map_or(&[], |buffer| &buffer[..])
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        slices.iter_mut().zip(&self.buffers).map(|(slice, buffer)| *slice = IoSlice::new(buffer)).count()
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(first) = self.buffers.front_mut() {
            if count < first.len() {
                first.advance(count);
                return;
            }
            count -= first.len();
            self.buffers.pop_front();
        }
        debug_assert_eq!(count, 0, "advanced past the end of a frame");
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;

    use super::*;

    #[test]
    fn large_fields_are_shared_and_keep_their_order() {
        let large = Bytes::from(vec![7; MIN_SHARED_LEN]);
        let small = Bytes::from_static(b"small");
        let fill = |mut out: MessageBuf| {
            out.put_u8(1);
            out.put_field(&large);
            out.put_field(&small);
            out.put_field(&large);
            assert_eq!(out.total(), 2 * MIN_SHARED_LEN + 6);
            out
        };
        let contiguous = fill(MessageBuf::new()).freeze();
        assert_eq!(fill(MessageBuf::sharing()).freeze(), contiguous);
        let mut frame = fill(MessageBuf::sharing()).into_frame();
        assert!(frame.buffers.iter().any(|buffer| buffer.as_ptr() == large.as_ptr()));
        // Each write may take any number of bytes, as with a socket.
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
        assert_eq!(written, contiguous);
        assert!(!frame.has_remaining());
    }
}
