//! Log segments: the files in which brokers keep a partition, and the indexes beside them.
//!
//! [`Segment`] cuts a `.log` file into runs of whole batches with bounded memory; [`index`] reads and checks the
//! indexes; [`dump`] writes all of it down for people and programs. Where the bytes come from is a [`Source`]: this
//! crate opens no files.
pub mod dump;
pub mod index;

use std::io;

use bytes::Bytes;

use crate::batch::{Batch, BatchError, BatchErrorKind, batches};

/// Bytes read at a time, unless a single batch is larger.
pub const WINDOW: usize = 1 << 20;

/// Bytes of a batch of any format up to its magic byte: fewer are no batch.
pub(crate) const UP_TO_MAGIC: usize = 17;
/// Where the length field ends, which counts the bytes after it.
pub(crate) const LENGTH_END: usize = 12;

/// Where a segment's bytes come from.
pub trait Source: std::fmt::Debug + Send + Sync {
    /// Bytes in all; more that are appended later are not looked at.
    fn size(&self) -> u64;

    /// The bytes from `position` on: `len`, or fewer at the end.
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

/// Where a segment is bad, and why.
#[derive(Debug, thiserror::Error)]
#[error("position {position}, offset {offset}: {kind}")]
pub struct SegmentError {
    /// Where in the file the bad batch starts.
    pub position: u64,
    /// The offset after the last good batch; for the first batch, what it claims to be its base offset.
    pub offset: i64,
    /// What is wrong.
    #[source]
    pub kind: SegmentErrorKind,
}

/// The ways in which a segment can be bad.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentErrorKind {
    /// A batch is bad.
    #[error(transparent)]
    Batch(#[from] BatchErrorKind),
    /// The file ends within a batch.
    #[error("the file ends within a batch: {left} of its bytes are there, it needs {needed}")]
    Truncated {
        /// Bytes from the start of the batch to the end of the file.
        left: u64,
        /// Bytes of the batch, or of the header when not even its length is there.
        needed: u64,
    },
    /// The file cannot be read.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
}

/// Batches that follow each other in a segment: one compressed batch, or as many uncompressed ones as were asked for.
#[derive(Debug, Clone)]
pub struct Run {
    /// Where in the file it starts.
    pub position: u64,
    /// Whole batches.
    pub data: Bytes,
}

/// Why there are no more batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// The file ends after its last batch.
    Clean,
    /// This many zeros follow the last batch: space that the broker has preallocated.
    Zeros(u64),
    /// The part of the file to be read ends within a batch, while the file goes on.
    Limit,
}

/// A segment, read from its start to its end.
#[derive(Debug)]
pub struct Segment {
    source: Box<dyn Source>,
    /// Bytes of the file, or the limit that was set.
    size: u64,
    limited: bool,
    /// Where the next batch starts.
    position: u64,
    /// The bytes from there on that are read already.
    window: Bytes,
    /// The offset after the last batch.
    next_offset: Option<i64>,
    tail: Option<Tail>,
    failed: bool,
}

impl Segment {
    /// The segment in `source`, of which at most the first `max_bytes` are looked at.
    pub fn new(source: Box<dyn Source>, max_bytes: Option<u64>) -> Segment {
        let all = source.size();
        let size = max_bytes.map_or(all, |most| most.min(all));
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

    /// Where the next batch starts.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes to be read in all.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// How the segment ends, once [`Segment::next_run`] has said that it does.
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// The next batches; `None` at the end and after an error.
    ///
    /// A run of uncompressed batches has about `limit` bytes, and one batch at least. A compressed batch comes by
    /// itself, as nobody knows how much it holds.
    pub fn next_run(&mut self, limit: usize) -> Result<Option<Run>, SegmentError> {
        if self.failed || self.tail.is_some() {
            return Ok(None);
        }
        let run = self.read_run(limit);
        self.failed = run.is_err();
        run
    }

    fn read_run(&mut self, limit: usize) -> Result<Option<Run>, SegmentError> {
        let mut wanted = WINDOW;
        loop {
            match cut(&self.window, limit) {
                Ok(Some((len, next_offset))) => {
                    let run = Run { position: self.position, data: self.window.split_to(len) };
                    self.position += len as u64;
                    self.next_offset = Some(next_offset);
                    return Ok(Some(run));
                }
                Ok(None) => {}
                Err(error) => return self.bad(error),
            }
            // The next batch is not here as a whole.
            let left = self.size - self.position;
            if self.window.len() as u64 >= left {
                return self.incomplete(left);
            }
            wanted = wanted.max(self.needed());
            // A batch larger than that is asked for as a whole in the next round.
            self.window = self.read(self.position, wanted)?;
        }
    }

    /// Bytes of the batch at the start of the window: bounded by what is left of the file before they are read.
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

    /// What follows the last batch is no batch.
    fn bad(&mut self, error: BatchError) -> Result<Option<Run>, SegmentError> {
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
        let claimed = self.window.first_chunk::<8>().map_or(-1, |bytes| i64::from_be_bytes(*bytes));
        Err(self.error(claimed, SegmentErrorKind::Truncated { left, needed: needed.max(left + 1) }))
    }

    fn end(&mut self, tail: Tail) -> Result<Option<Run>, SegmentError> {
        self.tail = Some(tail);
        self.window = Bytes::new();
        Ok(None)
    }

    /// Whether there is nothing but zeros to the end of the file. No batch begins with this many of them: its length
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

    /// An error at the batch that comes next, which claims `claimed` as its base offset.
    fn error(&self, claimed: i64, kind: SegmentErrorKind) -> SegmentError {
        SegmentError { position: self.position, offset: self.next_offset.unwrap_or(claimed), kind }
    }
}

/// How many bytes at the start of `window` make a run, and the offset after it; `None` if there is no whole batch.
fn cut(window: &Bytes, limit: usize) -> Result<Option<(usize, i64)>, BatchError> {
    let mut iter = batches(window.clone());
    let mut run = None;
    while let Some(next) = iter.next() {
        let batch: Batch = match next {
            Ok(batch) => batch,
            // It is reported when it comes first.
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
    // In pieces, so that the compiler compares vectors and still stops early.
    bytes.chunks(256).all(|piece| piece.iter().fold(0, |any, &byte| any | byte) == 0)
}
