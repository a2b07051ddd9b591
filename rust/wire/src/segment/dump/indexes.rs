//! Indexes, entry by entry, held against their log.
use std::ops::ControlFlow;

use super::{Dump, Findings, Format, Problem, STEP_BYTES, lines};
use crate::batch::{
    Batch, BatchErrorKind, HEADER_LEN, LegacyDecompressor, MessageSet, RawRecord, RecordVisitor, TimestampType,
    batches, walk,
};
use crate::compression::{Codec, Decompressor, Limits};
use crate::segment::index::{Index, IndexKind, OffsetEntry, TimeEntry};
use crate::segment::{LENGTH_END, Source, UP_TO_MAGIC};

/// What to do with an index.
#[derive(Debug, Clone)]
pub struct IndexDumpOptions {
    /// How lines look.
    pub format: Format,
    /// Only look for mistakes, print no entries.
    pub verify_only: bool,
    /// How far a batch may expand.
    pub limits: Limits,
}

/// An index being written down and checked.
#[derive(Debug)]
pub struct IndexDump {
    index: Index,
    /// The segment's log; `None` for a transaction index, which is not held against it.
    log: Option<Box<dyn Source>>,
    /// The segment's offset index, to find one's way in the log from a time index.
    offsets: Option<Index>,
    options: IndexDumpOptions,
    next: usize,
    previous: Option<TimeEntry>,
    /// Where in the log the batch of the last time entry is.
    cursor: u64,
    decompressor: Decompressor,
    legacy: LegacyDecompressor,
    findings: Findings,
}

impl IndexDump {
    /// For `index` of the segment with the log `log`; a time index also takes the segment's offset index.
    pub fn new(
        index: Index,
        log: Option<Box<dyn Source>>,
        offsets: Option<Index>,
        options: IndexDumpOptions,
    ) -> IndexDump {
        IndexDump {
            index,
            log,
            offsets,
            options,
            next: 0,
            previous: None,
            cursor: 0,
            decompressor: Decompressor::new(),
            legacy: LegacyDecompressor::new(),
            findings: Findings::default(),
        }
    }

    fn entry(&mut self, at: usize, out: &mut String) -> Option<()> {
        match self.index.kind() {
            IndexKind::Offset => {
                let entry = self.index.offset_entry(at)?;
                if let Some(cause) = self.check_offset(entry) {
                    self.problem(at, entry.offset, cause, out);
                }
                if !self.options.verify_only {
                    lines::offset_entry(self.options.format, out, entry);
                }
            }
            IndexKind::Time => {
                let entry = self.index.time_entry(at)?;
                if let Some(cause) = self.check_time(entry) {
                    self.problem(at, entry.offset, cause, out);
                }
                if let Some(previous) = self.previous.filter(|previous| previous.timestamp >= entry.timestamp) {
                    let (now, before) = (entry.timestamp, previous.timestamp);
                    let cause = format!("Index timestamp: {now}, Previously indexed timestamp: {before}");
                    self.problem(at, entry.offset, cause, out);
                }
                self.previous = Some(entry);
                if !self.options.verify_only {
                    lines::time_entry(self.options.format, out, entry);
                }
            }
            IndexKind::Transaction => {
                let entry = self.index.aborted_entry(at)?;
                if !self.options.verify_only {
                    lines::aborted_entry(self.options.format, out, entry);
                }
            }
        }
        Some(())
    }

    /// The batch at an entry's position must end with the entry's offset.
    fn check_offset(&self, entry: OffsetEntry) -> Option<String> {
        let log = self.log.as_deref()?;
        let found = match u64::try_from(entry.position) {
            Ok(position) => batch_at(log, position),
            Err(_) => Ok(None),
        };
        match found {
            Ok(Some(batch)) if batch.header.last_offset() == entry.offset => None,
            Ok(Some(batch)) => {
                Some(format!("Index offset: {}, log offset: {}", entry.offset, batch.header.last_offset()))
            }
            Ok(None) => Some(format!(
                "Index offset: {}, log offset: -1 (the log has no whole batch at position {})",
                entry.offset, entry.position
            )),
            Err(cause) => Some(format!(
                "Index offset: {}, log offset: -1 (no batch at position {} of the log: {cause})",
                entry.offset, entry.position
            )),
        }
    }

    /// An entry's offset must end a batch, whose largest timestamp must be the entry's.
    fn check_time(&mut self, entry: TimeEntry) -> Option<String> {
        if let Some(previous) = self.previous.filter(|previous| previous.offset > entry.offset) {
            return Some(format!("Index offset: {}, previously indexed offset: {}", entry.offset, previous.offset));
        }
        let not_found = |found: i64| format!("Indexed offset: {}, found log offset: {found}", entry.offset);
        let looked_up = self.offsets.as_ref().map_or(0, |offsets| offsets.lookup(entry.offset));
        let mut position = looked_up.max(self.cursor);
        let batch = loop {
            match batch_at(self.log.as_deref()?, position) {
                Ok(Some(batch)) if batch.header.last_offset() < entry.offset => {
                    position += batch.bytes().len() as u64;
                }
                Ok(Some(batch)) => break batch,
                Ok(None) => return Some(not_found(-1)),
                Err(cause) => return Some(format!("{} ({cause} at position {position} of the log)", not_found(-1))),
            }
        };
        self.cursor = position;
        if batch.header.last_offset() != entry.offset {
            return Some(not_found(batch.header.last_offset()));
        }
        match self.max_timestamp(&batch) {
            Ok(found) if found == entry.timestamp => None,
            Ok(found) => Some(format!("Index timestamp: {}, log timestamp: {found}", entry.timestamp)),
            Err(cause) => Some(format!("{} ({cause} at position {position} of the log)", not_found(-1))),
        }
    }

    /// The largest timestamp of the batch's records, -1 without any.
    fn max_timestamp(&mut self, batch: &Batch) -> Result<i64, BatchErrorKind> {
        struct Largest {
            base: i64,
            found: i64,
        }
        impl RecordVisitor for Largest {
            fn record(&mut self, _: &[u8], record: &RawRecord) -> ControlFlow<()> {
                self.found = self.found.max(self.base.wrapping_add(record.timestamp_delta));
                ControlFlow::Continue(())
            }
        }
        let header = &batch.header;
        if header.timestamp_type() == TimestampType::LogAppendTime && header.record_count != 0 {
            return Ok(header.max_timestamp);
        }
        if header.magic < 2 {
            let mut unpacked = Vec::new();
            let data = if header.is_wrapper() {
                let decompressed = self.legacy.decompress(batch, &mut unpacked, self.options.limits);
                decompressed.map_err(|error| error.kind)?;
                &unpacked
            } else {
                batch.bytes().as_ref()
            };
            return MessageSet::read(batch, data, false)
                .map(|set| set.header.max_timestamp)
                .map_err(|error| error.kind);
        }
        let payload = batch.bytes().get(HEADER_LEN..).unwrap_or_default();
        let mut largest = Largest { base: header.base_timestamp, found: -1 };
        let id = header.codec_id();
        match Codec::from_attributes(id).map_err(|_| BatchErrorKind::Codec { id })? {
            _ if payload.is_empty() => {}
            Codec::None => walk(payload, header.record_count, &mut largest)?,
            codec => {
                let mut records = Vec::new();
                let decompressed = self.decompressor.decompress(codec, payload, &mut records, self.options.limits);
                decompressed.map_err(BatchErrorKind::Decompress)?;
                walk(&records, header.record_count, &mut largest)?;
            }
        }
        Ok(largest.found)
    }

    fn problem(&mut self, at: usize, offset: i64, cause: String, out: &mut String) {
        let position = (at * self.index.kind().entry_len()) as u64;
        self.findings.problem(self.options.format, out, Problem { position, offset, cause });
    }
}

impl Dump for IndexDump {
    fn step(&mut self, out: &mut String) -> bool {
        let most = out.len() + STEP_BYTES;
        for _ in 0..4096 {
            if self.entry(self.next, out).is_none() {
                return false;
            }
            self.next += 1;
            if out.len() >= most {
                break;
            }
        }
        true
    }

    fn position(&self) -> u64 {
        (self.next * self.index.kind().entry_len()) as u64
    }

    fn size(&self) -> u64 {
        (self.index.len() * self.index.kind().entry_len()) as u64
    }

    fn findings(&self) -> &Findings {
        &self.findings
    }
}

/// The batch that starts at `position`, if it is there as a whole.
fn batch_at(log: &dyn Source, position: u64) -> Result<Option<Batch>, String> {
    if position.saturating_add(UP_TO_MAGIC as u64) > log.size() {
        return Ok(None);
    }
    let head = log.read(position, UP_TO_MAGIC).map_err(|error| error.to_string())?;
    let Some([.., l0, l1, l2, l3]) = head.first_chunk::<LENGTH_END>() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes([*l0, *l1, *l2, *l3])).unwrap_or(0);
    let left = usize::try_from(log.size() - position).unwrap_or(usize::MAX);
    let bytes =
        log.read(position, (LENGTH_END + length).max(UP_TO_MAGIC).min(left)).map_err(|error| error.to_string())?;
    batches(bytes).next().transpose().map_err(|error| error.kind.to_string())
}
