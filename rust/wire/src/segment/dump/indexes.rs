//! Dump of an index, which also verifies the entries against the log.
use std::time::Instant;

use super::records::{BatchReader, max_timestamp};
use super::{Dump, Findings, Format, Problem, STEP_BYTES, STEP_TIME, text_output};
use crate::batch::{Batch, batches};
use crate::compression::Limits;
use crate::segment::index::{Index, IndexKind, OffsetEntry, TimeEntry};
use crate::segment::{LENGTH_END, Source, UP_TO_MAGIC};

/// Options of an index dump.
#[derive(Debug, Clone)]
pub struct IndexDumpOptions {
    pub format: Format,
    /// Only report problems, without printing the entries.
    pub verify_only: bool,
    /// Limits on the size of decompressed batches.
    pub limits: Limits,
}

/// A dump of an index in progress.
#[derive(Debug)]
pub struct IndexDump {
    index: Index,
    /// The log of the segment, or `None` for a transaction index, which is not verified against the log.
    log: Option<Box<dyn Source>>,
    /// The offset index of the segment. It is used to find the batches that a time index refers to.
    offsets: Option<Index>,
    options: IndexDumpOptions,
    next: usize,
    previous: Option<TimeEntry>,
    /// Position in the log of the batch that the last entry of a time index refers to.
    cursor: u64,
    /// Position and maximum timestamp of the last decoded batch. They are cached, because many entries may refer to the
    /// same batch.
    latest: Option<(u64, i64)>,
    batch_reader: BatchReader,
    findings: Findings,
}

impl IndexDump {
    /// Creates a dump of `index`, whose segment has the log `log`. A time index also needs the offset index.
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
            latest: None,
            batch_reader: BatchReader::default(),
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
                    text_output::offset_entry(self.options.format, out, entry);
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
                    text_output::time_entry(self.options.format, out, entry);
                }
            }
            IndexKind::Transaction => {
                let entry = self.index.aborted_entry(at)?;
                if !self.options.verify_only {
                    text_output::aborted_entry(self.options.format, out, entry);
                }
            }
        }
        Some(())
    }

    /// Checks that the entry's offset is the last offset of the batch at the entry's position.
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

    /// Checks that the entry's offset is the last offset of a batch, and that the maximum timestamp of this batch is
    /// the entry's timestamp.
    fn check_time(&mut self, entry: TimeEntry) -> Option<String> {
        if let Some(previous) = self.previous.filter(|previous| previous.offset > entry.offset) {
            return Some(format!("Index offset: {}, previously indexed offset: {}", entry.offset, previous.offset));
        }
        let not_found = |found: i64| format!("Indexed offset: {}, found log offset: {found}", entry.offset);
        let looked_up = self.offsets.as_ref().map_or(0, |offsets| offsets.lookup(entry.offset));
        let start = looked_up.max(self.cursor);
        let mut position = start;
        let found = loop {
            match batch_at(self.log.as_deref()?, position) {
                Ok(Some(batch)) if batch.header.last_offset() < entry.offset => {
                    position += batch.bytes().len() as u64;
                }
                other => break other,
            }
        };
        // Entries have increasing offsets, so the search for the next entry can start here and no part of the log is
        // scanned twice. If the offset index has an invalid position, the cursor is not changed, so that later entries
        // are still found.
        if position > start || matches!(found, Ok(Some(_))) {
            self.cursor = position;
        }
        let batch = match found {
            Ok(Some(batch)) => batch,
            Ok(None) => return Some(not_found(-1)),
            Err(cause) => return Some(format!("{} ({cause} at position {position} of the log)", not_found(-1))),
        };
        if batch.header.last_offset() != entry.offset {
            return Some(not_found(batch.header.last_offset()));
        }
        let latest = match self.latest {
            Some((at, latest)) if at == position => Ok(latest),
            _ => max_timestamp(&mut self.batch_reader, &batch, self.options.limits),
        };
        self.latest = latest.as_ref().ok().map(|&latest| (position, latest));
        match latest {
            Ok(found) if found == entry.timestamp => None,
            Ok(found) => Some(format!("Index timestamp: {}, log timestamp: {found}", entry.timestamp)),
            Err(cause) => Some(format!("{} ({cause} at position {position} of the log)", not_found(-1))),
        }
    }

    fn problem(&mut self, at: usize, offset: i64, cause: String, out: &mut String) {
        let position = (at * self.index.kind().entry_len()) as u64;
        self.findings.problem(self.options.format, out, Problem { position, offset, cause });
    }
}

impl Dump for IndexDump {
    fn step(&mut self, out: &mut String) -> bool {
        let end = out.len() + STEP_BYTES;
        let started = Instant::now();
        while out.len() < end && started.elapsed() < STEP_TIME {
            if self.entry(self.next, out).is_none() {
                return false;
            }
            self.next += 1;
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

/// Returns the batch at `position`, or `None` if it is incomplete.
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
