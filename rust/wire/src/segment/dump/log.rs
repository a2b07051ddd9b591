//! A `.log` file, batch by batch and record by record.
use std::ops::ControlFlow;

use super::lines::{self, RecordLine};
use super::{Dump, Findings, Format, Problem, STEP_BYTES};
use crate::batch::legacy::Message;
use crate::batch::{
    Batch, BatchErrorKind, BatchHeader, Batches, HEADER_LEN, LegacyDecompressor, MessageSet, RawRecord, RecordVisitor,
    TimestampType, batches, walk,
};
use crate::compression::{Codec, Decompressor, Limits};
use crate::segment::{Segment, SegmentErrorKind, Source, Tail, WINDOW};

/// A scratch buffer larger than this is given back.
const MAX_KEPT_SCRATCH: usize = 8 << 20;

/// What to write down of a log.
#[derive(Debug, Clone)]
pub struct LogDumpOptions {
    /// How lines look.
    pub format: Format,
    /// Record by record.
    pub deep: bool,
    /// Keys and values too.
    pub print_data: bool,
    /// Only so much of the file.
    pub max_bytes: Option<u64>,
    /// How far a batch may expand.
    pub limits: Limits,
    /// The offset in the name of the file: the first that may be in it.
    pub base_offset: Option<i64>,
}

/// A `.log` file being written down.
#[derive(Debug)]
pub struct LogDump {
    segment: Segment,
    options: LogDumpOptions,
    /// The batches that are read, and where in the file they start.
    run: Option<(u64, Batches)>,
    decompressor: Decompressor,
    legacy: LegacyDecompressor,
    scratch: Vec<u8>,
    last_offset: Option<i64>,
    findings: Findings,
}

impl LogDump {
    /// For the log in `source`.
    pub fn new(source: Box<dyn Source>, options: LogDumpOptions) -> LogDump {
        LogDump {
            segment: Segment::new(source, options.max_bytes),
            run: None,
            decompressor: Decompressor::new(),
            legacy: LegacyDecompressor::new(),
            scratch: Vec::new(),
            last_offset: options.base_offset.map(|offset| offset.wrapping_sub(1)),
            findings: Findings::default(),
            options,
        }
    }

    /// The next batch and where in the file it starts.
    fn next_batch(&mut self, out: &mut String) -> Option<(u64, Batch)> {
        loop {
            if let Some((start, run)) = &mut self.run {
                match run.next() {
                    Some(Ok(batch)) => return Some((*start + batch.position as u64, batch)),
                    // A run holds whole batches that were read once already.
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
        lines::batch(self.options.format, out, &batch.header, batch.bytes().len(), position, valid.is_ok());
        if let Err(error) = valid {
            self.problem(position, &batch.header, error.kind.to_string(), out);
        }
        let codec = match Codec::from_attributes(batch.header.codec_id()) {
            Ok(codec) => codec,
            Err(_) => {
                let kind = BatchErrorKind::Codec { id: batch.header.codec_id() };
                return self.problem(position, &batch.header, kind.to_string(), out);
            }
        };
        if self.options.deep
            && let Err(kind) = self.records(batch, codec, out)
        {
            self.problem(position, &batch.header, kind.to_string(), out);
        }
    }

    fn records(&mut self, batch: &Batch, codec: Codec, out: &mut String) -> Result<(), BatchErrorKind> {
        let header = &batch.header;
        if header.magic < 2 {
            return self.messages(batch, out);
        }
        let payload = batch.bytes().get(HEADER_LEN..).unwrap_or_default();
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let mut visitor = Visitor {
            header,
            options: &self.options,
            out,
            last_offset: &mut self.last_offset,
            findings: &mut self.findings,
            outside: None,
        };
        let walked = if codec == Codec::None || payload.is_empty() {
            walk(payload, header.record_count, &mut visitor).map_err(BatchErrorKind::from)
        } else {
            let decompressed = self.decompressor.decompress(codec, payload, &mut scratch, self.options.limits);
            decompressed
                .map_err(BatchErrorKind::Decompress)
                .and_then(|()| walk(&scratch, header.record_count, &mut visitor).map_err(BatchErrorKind::from))
        };
        let outside = visitor.outside;
        if scratch.capacity() <= MAX_KEPT_SCRATCH {
            self.scratch = scratch;
        }
        walked?;
        match outside {
            Some(last_offset_delta) => Err(BatchErrorKind::Offsets { last_offset_delta }),
            None => Ok(()),
        }
    }

    /// The message that a v0 or v1 entry is, or those that it wraps.
    fn messages(&mut self, batch: &Batch, out: &mut String) -> Result<(), BatchErrorKind> {
        let mut unpacked = Vec::new();
        let data = if batch.header.is_wrapper() {
            let decompressed = self.legacy.decompress(batch, &mut unpacked, self.options.limits);
            decompressed.map_err(|error| error.kind)?;
            &unpacked
        } else {
            batch.bytes().as_ref()
        };
        let set = MessageSet::read(batch, data, false).map_err(|error| error.kind)?;
        let append_time = set.header.timestamp_type() == TimestampType::LogAppendTime;
        let all = || {
            let next = |at: usize| Message::read(data, at).ok().flatten();
            std::iter::successors(next(0), move |message| next(message.end))
        };
        let first = all().map(|message| message.offset).min().unwrap_or(0);
        for message in all() {
            // In a v1 wrapper they are written as differences.
            let offset = set.header.base_offset.wrapping_add(message.offset.wrapping_sub(first));
            follow(&mut self.last_offset, &mut self.findings, offset);
            lines::record(
                self.options.format,
                out,
                &RecordLine {
                    offset,
                    timestamp_type: (batch.header.magic > 0).then(|| set.header.timestamp_type()),
                    timestamp: if append_time { set.header.max_timestamp } else { message.timestamp },
                    key: message.key(data),
                    value: message.value(data),
                    sequence: None,
                    headers: None,
                    legacy_crc: Some((message.compute_crc(data) == message.crc, message.crc)),
                    control: false,
                    print_data: self.options.print_data,
                },
            );
        }
        Ok(())
    }

    fn problem(&mut self, position: u64, header: &BatchHeader, cause: String, out: &mut String) {
        let problem = Problem { position, offset: header.base_offset, cause };
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
        let most = out.len() + STEP_BYTES;
        // Batches that print little are many: whoever waits wants to be able to stop.
        for _ in 0..4096 {
            let Some((position, batch)) = self.next_batch(out) else {
                self.end();
                return false;
            };
            self.batch(position, &batch, out);
            if out.len() >= most {
                break;
            }
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

/// Notes a gap before `offset`.
fn follow(last_offset: &mut Option<i64>, findings: &mut Findings, offset: i64) {
    if let Some(last) = last_offset.replace(offset)
        && offset != last.wrapping_add(1)
    {
        findings.gap(last, offset);
    }
}

/// Writes the records of one batch.
struct Visitor<'a> {
    header: &'a BatchHeader,
    options: &'a LogDumpOptions,
    out: &'a mut String,
    last_offset: &'a mut Option<i64>,
    findings: &'a mut Findings,
    /// An offset delta that is not in the batch.
    outside: Option<i32>,
}

impl RecordVisitor for Visitor<'_> {
    fn record(&mut self, data: &[u8], record: &RawRecord) -> ControlFlow<()> {
        let header = self.header;
        let offset = header.base_offset.wrapping_add(i64::from(record.offset_delta));
        follow(self.last_offset, self.findings, offset);
        if !(0..=header.last_offset_delta).contains(&record.offset_delta) {
            self.outside = Some(record.offset_delta);
        }
        let timestamp = match header.timestamp_type() {
            TimestampType::CreateTime => header.base_timestamp.wrapping_add(record.timestamp_delta),
            TimestampType::LogAppendTime => header.max_timestamp,
        };
        lines::record(
            self.options.format,
            self.out,
            &RecordLine {
                offset,
                timestamp_type: Some(header.timestamp_type()),
                timestamp,
                key: record.key(data),
                value: record.value(data),
                sequence: Some(lines::sequence(header, record.offset_delta)),
                headers: Some(record.headers(data)),
                legacy_crc: None,
                control: header.is_control(),
                print_data: self.options.print_data,
            },
        );
        ControlFlow::Continue(())
    }
}
