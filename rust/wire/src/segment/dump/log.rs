//! Dump of a `.log` file, which prints batches and optionally their records.
use std::time::Instant;

use super::records::{BatchReader, Records};
use super::{Dump, Findings, Format, Problem, STEP_BYTES, STEP_TIME, text_output};
use crate::batch::{Batch, BatchErrorKind, Batches, batches};
use crate::compression::{Codec, Limits};
use crate::segment::{Segment, SegmentErrorKind, Source, Tail, WINDOW};

/// Options of a log dump.
#[derive(Debug, Clone)]
pub struct LogDumpOptions {
    pub format: Format,
    /// Print the records of each batch.
    pub deep: bool,
    /// Print the keys and values of the records.
    pub print_data: bool,
    /// Maximum number of bytes of the file to read.
    pub max_bytes: Option<u64>,
    /// Limits on the size of decompressed batches.
    pub limits: Limits,
    /// The offset in the file name, which is the smallest offset that the file may contain.
    pub base_offset: Option<i64>,
}

/// A dump of a `.log` file in progress.
#[derive(Debug)]
pub struct LogDump {
    segment: Segment,
    options: LogDumpOptions,
    /// The remaining batches of the current run, and the run's position in the file.
    run: Option<(u64, Batches)>,
    /// The remaining records of the current batch, and the batch's position in the file.
    records: Option<(u64, Records)>,
    batch_reader: BatchReader,
    last_offset: Option<i64>,
    findings: Findings,
}

impl LogDump {
    /// Creates a dump of the log in `source`.
    pub fn new(source: Box<dyn Source>, options: LogDumpOptions) -> LogDump {
        LogDump {
            segment: Segment::new(source, options.max_bytes),
            run: None,
            records: None,
            batch_reader: BatchReader::default(),
            last_offset: options.base_offset.map(|offset| offset.wrapping_sub(1)),
            findings: Findings::default(),
            options,
        }
    }

    /// Returns the next batch and its position in the file.
    fn next_batch(&mut self, out: &mut String) -> Option<(u64, Batch)> {
        loop {
            if let Some((start, run)) = &mut self.run {
                match run.next() {
                    Some(Ok(batch)) => return Some((*start + batch.position as u64, batch)),
                    // An error is not possible here, because `next_run` has already parsed the batches of the run.
                    Some(Err(_)) | None => self.run = None,
                }
            }
            match self.segment.next_run(WINDOW) {
                Ok(Some(run)) => self.run = Some((run.position, batches(run.data))),
                Ok(None) => return None,
                Err(error) => {
                    if let SegmentErrorKind::Truncated { left, .. } = error.kind {
                        self.findings.notes.push(format!("Found {left} invalid bytes at the end"));
                    }
                    let cause = error.kind.to_string();
                    let problem = Problem { position: error.position, offset: error.offset, cause };
                    self.findings.problem(self.options.format, out, problem);
                }
            }
        }
    }

    fn batch(&mut self, position: u64, batch: &Batch, out: &mut String) {
        let valid = batch.check_crc();
        text_output::batch(self.options.format, out, &batch.header, batch.bytes().len(), position, valid.is_ok());
        if let Err(error) = valid {
            self.problem(position, batch.header.base_offset, error.kind.to_string(), out);
        }
        let id = batch.header.codec_id();
        let opened = match Codec::from_attributes(id) {
            Err(_) => Err(BatchErrorKind::Codec { id }),
            Ok(_) if !self.options.deep => return,
            Ok(_) => self.batch_reader.open(batch, self.options.limits),
        };
        match opened {
            Ok(records) => self.records = Some((position, records)),
            Err(kind) => self.problem(position, batch.header.base_offset, kind.to_string(), out),
        }
    }

    /// Writes records of the current batch until `out` has `end` bytes. Returns false if the batch has no more records.
    fn records(&mut self, out: &mut String, end: usize) -> bool {
        let Some((position, mut records)) = self.records.take() else { return false };
        while out.len() < end {
            match records.next(self.options.print_data) {
                Ok(Some(record)) => {
                    if let Some(last) = self.last_offset.replace(record.offset)
                        && record.offset != last.wrapping_add(1)
                    {
                        self.findings.gap(last, record.offset);
                    }
                    text_output::record(self.options.format, out, &record);
                }
                Ok(None) => {
                    self.batch_reader.close(records);
                    return false;
                }
                Err(kind) => {
                    let offset = records.header.base_offset;
                    self.batch_reader.close(records);
                    self.problem(position, offset, kind.to_string(), out);
                    return false;
                }
            }
        }
        self.records = Some((position, records));
        true
    }

    fn problem(&mut self, position: u64, offset: i64, cause: String, out: &mut String) {
        let problem = Problem { position, offset, cause };
        self.findings.problem(self.options.format, out, problem);
    }

    fn end(&mut self) {
        if let Some(Tail::Zeros(bytes)) = self.segment.tail() {
            self.findings.notes.push(format!("Found {bytes} zero bytes (preallocated space) at the end"));
        }
    }
}

impl Dump for LogDump {
    fn step(&mut self, out: &mut String) -> bool {
        let end = out.len() + STEP_BYTES;
        let started = Instant::now();
        while !self.records(out, end) && out.len() < end && started.elapsed() < STEP_TIME {
            let Some((position, batch)) = self.next_batch(out) else {
                self.end();
                return false;
            };
            self.batch(position, &batch, out);
        }
        true
    }

    fn position(&self) -> u64 {
        match &self.run {
            Some((start, run)) => start + run.position() as u64,
            None => self.segment.position(),
        }
    }

    fn size(&self) -> u64 {
        self.segment.size()
    }

    fn findings(&self) -> &Findings {
        &self.findings
    }
}
