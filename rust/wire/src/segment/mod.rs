//! Log segments: the files of a partition on a broker, and their indexes.
//!
//! [`Segment`] splits a `.log` file into runs of complete batches with bounded memory; [`index`] reads and checks the
//! indexes; [`dump`] prints all of them. The bytes come from a [`Source`]: this crate opens no files.
pub mod dump;
pub mod index;

use std::io;

use bytes::Bytes;

use crate::batch::{Batch, BatchError, BatchErrorKind, batches};

/// Number of bytes read at a time, unless a single batch is larger.
pub const WINDOW: usize = 1 << 20;

/// Length of a batch of any format up to its magic byte, the minimum to identify it.
pub(crate) const UP_TO_MAGIC: usize = 17;
/// End of the length field, which counts the bytes after it.
pub(crate) const LENGTH_END: usize = 12;

/// A source of a segment's bytes.
pub trait Source: std::fmt::Debug + Send + Sync {
    /// Returns the total size; bytes appended later are ignored.
    fn size(&self) -> u64;

    /// Reads `len` bytes from `position` on, or fewer at the end.
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

/// An error of a segment, with its position.
#[derive(Debug, thiserror::Error)]
#[error("position {position}, offset {offset}: {kind}")]
pub struct SegmentError {
    /// Position of the malformed batch in the file.
    pub position: u64,
    /// Offset after the last valid batch; for the first batch, the base offset in its header.
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
        /// Size of the batch, or of the header if even its length is incomplete.
        needed: u64,
    },
    /// The file cannot be read.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
}

/// Consecutive batches of a segment: one compressed batch, or several uncompressed ones up to a limit.
#[derive(Debug, Clone)]
pub struct Run {
    /// Position of the run in the file.
    pub position: u64,
    /// Complete batches.
    pub data: Bytes,
}

/// The end of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// The file ends after its last batch.
    Clean,
    /// This many zeros follow the last batch: space preallocated by the broker.
    Zeros(u64),
    /// The read limit is within a batch.
    Limit,
}

/// Reader of a segment from start to end.
#[derive(Debug)]
pub struct Segment {
    source: Box<dyn Source>,
    /// Size of the file, or the read limit.
    size: u64,
    limited: bool,
    /// Position of the next batch.
    position: u64,
    /// Bytes from `position` on that have been read.
    window: Bytes,
    /// Offset after the last batch.
    next_offset: Option<i64>,
    tail: Option<Tail>,
    failed: bool,
}

impl Segment {
    /// Creates a reader of `source`, limited to the first `max_bytes`.
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

    /// Returns the number of bytes to read in total.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the kind of end, once [`Segment::next_run`] has returned `None`.
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// Returns the next batches; `None` at the end and after an error.
    ///
    /// A run of uncompressed batches has about `limit` bytes, and at least one batch. A compressed batch is a run of
    /// its own, as its decompressed size is unknown.
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
            // The next batch is not complete in the window.
            let left = self.size - self.position;
            if self.window.len() as u64 >= left {
                return self.incomplete(left);
            }
            read_len = read_len.max(self.needed());
            // A larger batch is read completely in the next iteration.
            self.window = self.read(self.position, read_len)?;
        }
    }

    /// Returns the size of the batch at the start of the window, which `read` limits to the rest of the file.
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

    /// Handles bytes after the last batch that are not a batch.
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

    /// Returns true if only zeros remain to the end of the file. A batch never starts with twelve zeros: its length
    /// would be 0.
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

    /// Creates an error at the next batch, whose header has the base offset `base_offset`.
    fn error(&self, base_offset: i64, kind: SegmentErrorKind) -> SegmentError {
        SegmentError { position: self.position, offset: self.next_offset.unwrap_or(base_offset), kind }
    }
}

/// Returns the length of a run at the start of `window`, and the offset after it; `None` without a complete batch.
fn cut(window: &Bytes, limit: usize) -> Result<Option<(usize, i64)>, BatchError> {
    let mut iter = batches(window.clone());
    let mut run = None;
    while let Some(next) = iter.next() {
        let batch: Batch = match next {
            Ok(batch) => batch,
            // Reported once it is the first batch of the window.
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
    // In chunks, so that the compiler vectorizes the comparison and it still stops early.
    bytes.chunks(256).all(|chunk| chunk.iter().fold(0, |any, &byte| any | byte) == 0)
}
