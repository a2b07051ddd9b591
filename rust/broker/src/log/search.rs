//! Finding a record by its time inside of a batch.

use std::ops::ControlFlow;

use bytes::Bytes;
use samsarrow_wire::batch::{
    Batch, Block, LegacyDecompressor, MessageSet, RawRecord, RecordVisitor, TimestampType, batches, walk,
};
use samsarrow_wire::compression::{Codec, Decompressor};

/// A batch is at most this large when decompressed, or it is searched by its header alone.
const MOST_DECOMPRESSED: usize = 256 << 20;

/// A record found by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) epoch: i32,
}

struct Search {
    /// The first offset that there is, counted from the batch's.
    first: i64,
    from: i64,
    found: Option<(i32, i64)>,
}

impl RecordVisitor for Search {
    fn record(&mut self, _data: &[u8], record: &RawRecord) -> ControlFlow<()> {
        if record.timestamp_delta < self.from || i64::from(record.offset_delta) < self.first {
            return ControlFlow::Continue(());
        }
        self.found = Some((record.offset_delta, record.timestamp_delta));
        ControlFlow::Break(())
    }
}

/// The same in an entry of magic 0 or 1; of the former none has a time.
fn in_messages(batch: &Batch, timestamp: i64, start: i64) -> Option<Found> {
    let (messages, set) = messages(batch)?;
    let base = set.header.base_offset;
    let first = Found { offset: base.max(start), timestamp: set.header.max_timestamp, epoch: -1 };
    if set.header.timestamp_type() == TimestampType::LogAppendTime {
        return (first.timestamp >= timestamp).then_some(first);
    }
    let mut found = None;
    let mut search = |block: &mut Block| {
        let mut pairs = block.timestamp_delta().iter().zip(block.offset_delta());
        found = pairs
            .find(|(time, offset)| {
                let there = base.saturating_add((**offset).into()) >= start;
                there && set.header.base_timestamp.saturating_add(**time) >= timestamp
            })
            .map(|(&t, &o)| (t, o));
        if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    set.walk_blocks(&messages, &mut Block::new(), &mut search).ok()?;
    let (time, offset) = found?;
    let timestamp = set.header.base_timestamp.saturating_add(time);
    Some(Found { offset: base.saturating_add(offset.into()), timestamp, epoch: -1 })
}

/// The first record from offset `start` on that is at or after `timestamp`. Where the records cannot be read (the broker checks the batch, not what
/// is compressed in it), the start of the batch stands for them.
pub(crate) fn at_or_after(bytes: Bytes, timestamp: i64, start: i64) -> Option<Found> {
    let batch = batches(bytes).next()?.ok()?;
    let header = &batch.header;
    if header.magic < 2 {
        return in_messages(&batch, timestamp, start);
    }
    let epoch = header.partition_leader_epoch;
    let first = Found { offset: header.base_offset.max(start), timestamp: header.max_timestamp, epoch };
    if header.timestamp_type() == TimestampType::LogAppendTime {
        // One time for all records.
        return (header.max_timestamp >= timestamp).then_some(first);
    }
    let Some(records) = records(&batch) else { return Some(first) };
    let from = timestamp.saturating_sub(header.base_timestamp);
    let mut search = Search { first: start.saturating_sub(header.base_offset), from, found: None };
    if walk(&records, header.record_count, &mut search).is_err() {
        return Some(first);
    }
    let (offset, delta) = search.found?;
    Some(Found {
        offset: header.base_offset.saturating_add(offset.into()),
        timestamp: header.base_timestamp.saturating_add(delta),
        epoch,
    })
}

/// The first record with the latest timestamp.
pub(crate) fn latest(bytes: Bytes, start: i64) -> Option<Found> {
    let batch = batches(bytes.clone()).next()?.ok()?;
    let latest =
        if batch.header.is_wrapper() { messages(&batch)?.1.header.max_timestamp } else { batch.header.max_timestamp };
    // A batch whose records have no time has none that is latest.
    if latest < 0 { None } else { at_or_after(bytes, latest, start) }
}

fn messages(batch: &Batch) -> Option<(Vec<u8>, MessageSet)> {
    let mut messages = Vec::new();
    if batch.header.is_wrapper() {
        LegacyDecompressor::new().decompress(batch, &mut messages, MOST_DECOMPRESSED).ok()?;
    } else {
        messages.extend_from_slice(batch.bytes());
    }
    let set = MessageSet::read(batch, &messages, false).ok()?;
    Some((messages, set))
}

fn records(batch: &Batch) -> Option<Bytes> {
    let codec = Codec::from_attributes(batch.header.attributes).ok()?;
    if codec == Codec::None {
        return Some(batch.payload());
    }
    let mut records = Vec::new();
    Decompressor::new().decompress(codec, &batch.payload(), &mut records, MOST_DECOMPRESSED).ok()?;
    Some(records.into())
}
