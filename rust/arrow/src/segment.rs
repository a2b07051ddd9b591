//! Log segments into Arrow batches, with bounded memory.
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use samsarrow_wire::segment::{Run, Segment, SegmentError, SegmentErrorKind, Source};

use crate::decode::{DecodeCause, DecodeOptions, Decoder, Window};

/// How to read a segment.
#[derive(Debug, Clone)]
pub struct SegmentOptions {
    /// How to decode; `max_bytes` is about the bytes of records in an Arrow batch.
    pub decode: DecodeOptions,
    /// The topic and partition that the rows shall be of; null if nobody knows.
    pub place: Option<(Arc<str>, i32)>,
    /// Records before it are left out.
    pub from_offset: Option<i64>,
    /// Records from it on are left out.
    pub until_offset: Option<i64>,
    /// The most rows of an Arrow batch.
    pub max_rows: Option<usize>,
}

/// A segment that cannot be read on. What came before has been given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentReadError {
    /// The segment is bad.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A batch is good but cannot become rows.
    #[error("position {position}, offset {offset}: {cause}")]
    Decode {
        /// Where in the file the batch starts.
        position: u64,
        /// The offset at which reading stopped.
        offset: i64,
        /// Why.
        #[source]
        cause: Box<DecodeCause>,
    },
    /// Arrow refuses the columns.
    #[error("Arrow: {0}")]
    Arrow(#[from] ArrowError),
}

/// What [`SegmentReader::step`] did.
#[derive(Debug)]
pub enum Step {
    /// Rows.
    Batch(RecordBatch),
    /// Went on without having rows yet: step again.
    More,
    /// There are no more.
    End,
}

/// Reads a segment from its start to its end.
#[derive(Debug)]
pub struct SegmentReader {
    segment: Segment,
    options: SegmentOptions,
    decoder: Decoder,
    /// Batches that are read and not decoded yet, and the first offset in them that is wanted.
    run: Option<(Run, i64)>,
    from_offset: i64,
    /// The offset after what is decoded; the least there is before anything is.
    next_offset: i64,
    done: bool,
    failed: Option<SegmentReadError>,
}

/// Steps over data without wanted rows are this many runs, about 64 MiB: anyone who waits wants to be able to stop.
const RUNS_PER_STEP: usize = 64;

impl SegmentReader {
    /// For the segment in `source`.
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

    /// The schema of all batches.
    pub fn schema(&self) -> &SchemaRef {
        self.decoder.schema()
    }

    /// The next rows. A bad batch is an error, given after all rows before it; the step after that is the end.
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

    /// Hands over what is there; when nothing is, what kept more from coming.
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

    /// Decodes a run, or as much of it as fits; true when the rows so far are to be handed over.
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
            max_rows: self.options.max_rows.map(|most| most.saturating_sub(self.decoder.rows())),
            aborted: None,
        };
        let appended = match &self.options.place {
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

/// An error in the run at `start`, whose first `consumed` bytes were good.
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
