//! Log segments, which are the files of a partition on a broker, and their indexes.
//!
//! [`Segment`] splits a `.log` file into runs of complete batches with bounded memory; [`index`] reads and checks the
//! indexes; [`dump`] prints segments and indexes. The bytes come from a [`Source`], because this crate opens no files.
pub mod dump;
pub mod index;

use std::io;

use bytes::Bytes;

use crate::batch::{Batch, BatchError, BatchErrorKind, batches};

/// Number of bytes read at a time, unless a single batch is larger.
pub const WINDOW: usize = 1 << 20;

/// Length of a batch of any format up to and including its magic byte. This many bytes are needed to identify the
/// format.
pub(crate) const UP_TO_MAGIC: usize = 17;
/// End of the length field. The length field counts the bytes after it.
pub(crate) const LENGTH_END: usize = 12;

/// A source of a segment's bytes.
pub trait Source: std::fmt::Debug + Send + Sync {
    /// Returns the total size. Bytes that are appended later are ignored.
    fn size(&self) -> u64;

    /// Reads `len` bytes from `position` on, or fewer at the end of the source.
    fn read(&self, position: u64, len: usize) -> io::Result<Bytes>;
}

impl Source for Bytes {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, position: u64, len: usize) -> io::Result<Bytes> {
        let start = usize::try_from(position).unwrap_or(usize::MAX).min(self.len());
        Ok(self.slice(start..start.saturating_add(len).min(self.len())))
    }
}

/// An error in a segment, with its position.
#[derive(Debug, thiserror::Error)]
#[error("position {position}, offset {offset}: {kind}")]
pub struct SegmentError {
    /// Position of the malformed batch in the file.
    pub position: u64,
    /// Offset after the last valid batch. If the first batch is malformed, the base offset in its header.
    pub offset: i64,
    /// The cause.
    #[source]
    pub kind: SegmentErrorKind,
}

/// Causes of a segment error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentErrorKind {
    /// A batch is malformed.
    #[error(transparent)]
    Batch(#[from] BatchErrorKind),
    /// The file ends within a batch.
    #[error("the file ends within a batch: {left} of its bytes are there, it needs {needed}")]
    Truncated {
        /// Number of bytes from the start of the batch to the end of the file.
        left: u64,
        /// Size of the batch, or a minimum size if the header is incomplete.
        needed: u64,
    },
    /// The file cannot be read.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
}

/// A run of consecutive batches of a segment: either one compressed batch, or several uncompressed batches up to a
/// limit.
#[derive(Debug, Clone)]
pub struct Run {
    /// Position of the run in the file.
    pub position: u64,
    /// Complete batches.
    pub data: Bytes,
}

/// The end of a segment after its last complete batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// The file ends after its last batch.
    Clean,
    /// This many zeros follow the last batch, because the broker preallocated the space.
    Zeros(u64),
    /// The read limit lies within a batch.
    Limit,
}

/// Reader of a segment from start to end.
#[derive(Debug)]
pub struct Segment {
    source: Box<dyn Source>,
    /// Size of the file, or the read limit if it is smaller.
    size: u64,
    limited: bool,
    /// Position of the next batch.
    position: u64,
    /// Bytes of the source that have been read, starting at `position`.
    window: Bytes,
    /// Offset after the last batch that was returned.
    next_offset: Option<i64>,
    tail: Option<Tail>,
    failed: bool,
}

impl Segment {
    /// Creates a reader of `source` that reads only the first `max_bytes` bytes, if set.
    pub fn new(source: Box<dyn Source>, max_bytes: Option<u64>) -> Segment {
        let all = source.size();
        let size = max_bytes.map_or(all, |max_bytes| max_bytes.min(all));
        Segment {
            source,
            size,
            limited: size < all,
            position: 0,
            window: Bytes::new(),
            next_offset: None,
            tail: None,
            failed: false,
        }
    }

    /// Returns the position of the next batch.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of bytes that are read in total.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns how the segment ends, once [`Segment::next_run`] has returned `None`.
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// Returns the next run of batches, or `None` at the end and after an error.
    ///
    /// A run of uncompressed batches has about `limit` bytes, and at least one batch. A compressed batch is always a
    /// separate run, because its decompressed size is unknown.
    pub fn next_run(&mut self, limit: usize) -> Result<Option<Run>, SegmentError> {
        if self.failed || self.tail.is_some() {
            return Ok(None);
        }
        let run = self.read_run(limit);
        self.failed = run.is_err();
        run
    }

    fn read_run(&mut self, limit: usize) -> Result<Option<Run>, SegmentError> {
        let mut read_len = WINDOW;
        loop {
            match cut(&self.window, limit) {
                Ok(Some((len, next_offset))) => {
                    let run = Run { position: self.position, data: self.window.split_to(len) };
                    self.position += len as u64;
                    self.next_offset = Some(next_offset);
                    return Ok(Some(run));
                }
                Ok(None) => {}
                Err(error) => return self.invalid(error),
            }
            // The window does not contain all of the next batch.
            let left = self.size - self.position;
            if self.window.len() as u64 >= left {
                return self.incomplete(left);
            }
            read_len = read_len.max(self.needed());
            // If the batch is larger than this read, the next iteration reads it completely.
            self.window = self.read(self.position, read_len)?;
        }
    }

    /// Returns the size that the length field of the next batch states, or a minimum size if the window ends before
    /// this field. The size may exceed the rest of the file.
    fn needed(&self) -> usize {
        let Some(prefix) = self.window.first_chunk::<LENGTH_END>() else { return UP_TO_MAGIC };
        let [.., l0, l1, l2, l3] = *prefix;
        LENGTH_END + usize::try_from(i32::from_be_bytes([l0, l1, l2, l3])).unwrap_or(0)
    }

    fn read(&self, position: u64, len: usize) -> Result<Bytes, SegmentError> {
        let len = len.min(usize::try_from(self.size - position).unwrap_or(usize::MAX));
        let fail = |error: io::Error| self.error(0, error.into());
        let bytes = self.source.read(position, len).map_err(fail)?;
        if bytes.len() < len {
            return Err(fail(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file has become shorter while it was read",
            )));
        }
        Ok(bytes)
    }

    /// Handles bytes after the last batch that cannot be parsed as a batch.
    fn invalid(&mut self, error: BatchError) -> Result<Option<Run>, SegmentError> {
        if self.zeros_only()? {
            return self.end(Tail::Zeros(self.size - self.position));
        }
        Err(self.error(error.base_offset, error.kind.into()))
    }

    fn incomplete(&mut self, left: u64) -> Result<Option<Run>, SegmentError> {
        if left == 0 {
            return self.end(if self.limited { Tail::Limit } else { Tail::Clean });
        }
        if self.limited {
            return self.end(Tail::Limit);
        }
        if self.zeros_only()? {
            return self.end(Tail::Zeros(left));
        }
        let needed = self.needed() as u64;
        let base_offset = self.window.first_chunk::<8>().map_or(-1, |bytes| i64::from_be_bytes(*bytes));
        Err(self.error(base_offset, SegmentErrorKind::Truncated { left, needed: needed.max(left + 1) }))
    }

    fn end(&mut self, tail: Tail) -> Result<Option<Run>, SegmentError> {
        self.tail = Some(tail);
        self.window = Bytes::new();
        Ok(None)
    }

    /// Returns true if the rest of the file consists only of zeros. A batch never starts with twelve zeros, because its
    /// length would then be 0.
    fn zeros_only(&self) -> Result<bool, SegmentError> {
        if !all_zeros(self.window.get(..LENGTH_END).unwrap_or(&self.window)) {
            return Ok(false);
        }
        let mut position = self.position;
        while position < self.size {
            let bytes = self.read(position, WINDOW)?;
            if !all_zeros(&bytes) {
                return Ok(false);
            }
            position += bytes.len() as u64;
        }
        Ok(true)
    }

    /// Creates an error for the next batch, whose header has the base offset `base_offset`.
    fn error(&self, base_offset: i64, kind: SegmentErrorKind) -> SegmentError {
        SegmentError { position: self.position, offset: self.next_offset.unwrap_or(base_offset), kind }
    }
}

/// Returns the length of the run at the start of `window` and the offset after the run, or `None` if the window
/// contains no complete batch.
fn cut(window: &Bytes, limit: usize) -> Result<Option<(usize, i64)>, BatchError> {
    let mut iter = batches(window.clone());
    let mut run = None;
    while let Some(next) = iter.next() {
        let batch: Batch = match next {
            Ok(batch) => batch,
            // This error is returned later, when the malformed batch is the first of the window.
            Err(_) if run.is_some() => break,
            Err(error) => return Err(error),
        };
        let compressed = batch.header.codec_id() != 0;
        if run.is_some() && (compressed || iter.position() > limit) {
            break;
        }
        run = Some((iter.position(), batch.header.next_offset()));
        if compressed {
            break;
        }
    }
    Ok(run)
}

fn all_zeros(bytes: &[u8]) -> bool {
    // Compare in chunks, so that the compiler can vectorize each comparison but the loop still stops early.
    bytes.chunks(256).all(|chunk| chunk.iter().fold(0, |any, &byte| any | byte) == 0)
}
