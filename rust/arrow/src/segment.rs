//! Reader of log segments as Arrow batches, with bounded memory.
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use samsarrow_wire::segment::{Run, Segment, SegmentError, SegmentErrorKind, Source};

use crate::decode::{DecodeCause, DecodeOptions, Decoder, Window};

/// Options of a segment reader.
#[derive(Debug, Clone)]
pub struct SegmentOptions {
    /// Options of the decoder; `max_bytes` is the approximate size of the records in an Arrow batch.
    pub decode: DecodeOptions,
    /// Topic and partition of the segment; `None` makes both columns null.
    pub topic_partition: Option<(Arc<str>, i32)>,
    /// Records before this offset are skipped.
    pub from_offset: Option<i64>,
    /// Records from this offset on are skipped.
    pub until_offset: Option<i64>,
    /// Maximum number of rows in an Arrow batch.
    pub max_rows: Option<usize>,
}

/// The reason why a segment cannot be read further. All rows before the error have been returned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentReadError {
    /// The segment is invalid.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A batch is valid, but its records cannot be converted to rows.
    #[error("position {position}, offset {offset}: {cause}")]
    Decode {
        /// Position of the batch in the file, in bytes.
        position: u64,
        /// The offset at which reading stopped.
        offset: i64,
        /// The cause.
        #[source]
        cause: Box<DecodeCause>,
    },
    /// Arrow rejected the columns.
    #[error("Arrow: {0}")]
    Arrow(#[from] ArrowError),
}

/// Result of [`SegmentReader::step`].
#[derive(Debug)]
pub enum Step {
    /// Rows.
    Batch(RecordBatch),
    /// There are no rows yet: call `step` again.
    More,
    /// The end of the segment.
    End,
}

/// Reads a segment from start to end.
#[derive(Debug)]
pub struct SegmentReader {
    segment: Segment,
    options: SegmentOptions,
    decoder: Decoder,
    /// Batches that are read but not yet decoded, and the first offset to decode.
    run: Option<(Run, i64)>,
    from_offset: i64,
    /// The offset after the last decoded record; `i64::MIN` if no record was decoded yet.
    next_offset: i64,
    done: bool,
    failed: Option<SegmentReadError>,
}

/// Maximum number of runs that a step reads without finding rows, about 64 MiB. The limit lets callers cancel between
/// steps.
const RUNS_PER_STEP: usize = 64;

impl SegmentReader {
    /// Creates a reader for the segment in `source`.
    pub fn new(source: Box<dyn Source>, options: SegmentOptions) -> SegmentReader {
        SegmentReader {
            segment: Segment::new(source, None),
            decoder: Decoder::new(options.decode.clone()),
            from_offset: options.from_offset.unwrap_or(i64::MIN),
            run: None,
            next_offset: i64::MIN,
            done: false,
            failed: None,
            options,
        }
    }

    /// Returns the schema of all batches.
    pub fn schema(&self) -> &SchemaRef {
        self.decoder.schema()
    }

    /// Returns the next rows. If a batch is invalid, its error is returned after all rows before the batch, and the
    /// next step returns [`Step::End`].
    pub fn step(&mut self) -> Result<Step, SegmentReadError> {
        for _ in 0..RUNS_PER_STEP {
            if self.done || self.failed.is_some() {
                return self.finish();
            }
            match self.advance() {
                Ok(true) => return self.finish(),
                Ok(false) => {}
                Err(error) => self.failed = Some(error),
            }
        }
        Ok(Step::More)
    }

    /// Returns the rows decoded so far or, if there are none, the pending error.
    fn finish(&mut self) -> Result<Step, SegmentReadError> {
        if self.decoder.rows() > 0 {
            return Ok(Step::Batch(self.decoder.finish()?));
        }
        match self.failed.take() {
            Some(error) => {
                self.done = true;
                Err(error)
            }
            None if self.done => Ok(Step::End),
            None => Ok(Step::More),
        }
    }

    /// Decodes a run, or as much of the run as fits. Returns true if the rows decoded so far should be returned.
    fn advance(&mut self) -> Result<bool, SegmentReadError> {
        let limit = self.options.decode.max_bytes;
        let (mut run, from_offset) = match self.run.take() {
            Some(begun) => begun,
            None => match self.segment.next_run(limit.saturating_sub(self.decoder.bytes()))? {
                Some(run) => (run, self.from_offset),
                None => {
                    self.done = true;
                    return Ok(true);
                }
            },
        };
        let window = Window {
            from_offset,
            until_offset: self.options.until_offset,
            max_rows: self.options.max_rows.map(|max_rows| max_rows.saturating_sub(self.decoder.rows())),
            aborted: None,
        };
        let appended = match &self.options.topic_partition {
            Some((topic, partition)) => self.decoder.append(topic, *partition, run.data.clone(), window),
            None => self.decoder.append_nameless(&run.data, window),
        };
        let appended = appended.map_err(|error| {
            let offset = self.next_offset.max(error.offset);
            failure(run.position, offset, error.appended.consumed, error.cause)
        })?;
        self.next_offset = appended.next_offset;
        if appended.reached_until {
            self.done = true;
            return Ok(true);
        }
        let stopped = appended.full || appended.row_limit;
        if stopped {
            let rest = run.data.split_off(appended.consumed.min(run.data.len()));
            let rest = Run { position: run.position + appended.consumed as u64, data: rest };
            self.run = Some((rest, appended.next_offset));
        }
        Ok(stopped || self.decoder.bytes() >= limit)
    }
}

/// Creates the error for the run at position `start` after its first `consumed` bytes were decoded.
fn failure(start: u64, offset: i64, consumed: usize, cause: DecodeCause) -> SegmentReadError {
    match cause {
        DecodeCause::Batch(error) => {
            let position = start + error.position as u64;
            let offset = if offset == i64::MIN { error.base_offset } else { offset };
            SegmentReadError::Segment(SegmentError { position, offset, kind: SegmentErrorKind::Batch(error.kind) })
        }
        cause => SegmentReadError::Decode { position: start + consumed as u64, offset, cause: Box::new(cause) },
    }
}
