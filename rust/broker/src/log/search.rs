//! Search for a record by timestamp within a batch.

use std::ops::ControlFlow;

use bytes::Bytes;
use samsarrow_wire::batch::{
    Batch, Block, LegacyDecompressor, MessageSet, RawRecord, RecordVisitor, TimestampType, batches, walk,
};
use samsarrow_wire::compression::{Codec, Decompressor};

/// Maximum decompressed size of a batch in bytes. In a larger batch only the header is searched.
const MAX_DECOMPRESSED: usize = 256 << 20;

/// Offset, timestamp and leader epoch of a record found by timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundRecord {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) epoch: i32,
}

struct Search {
    /// First readable offset, relative to the base offset of the batch.
    first: i64,
    from: i64,
    result: Option<(i32, i64)>,
}

impl RecordVisitor for Search {
    fn record(&mut self, _data: &[u8], record: &RawRecord) -> ControlFlow<()> {
        if record.timestamp_delta < self.from || i64::from(record.offset_delta) < self.first {
            return ControlFlow::Continue(());
        }
        self.result = Some((record.offset_delta, record.timestamp_delta));
        ControlFlow::Break(())
    }
}

/// Searches a message set of format v0 or v1. Messages of format v0 have no timestamp.
fn in_messages(batch: &Batch, timestamp: i64, start: i64) -> Option<FoundRecord> {
    let (messages, set) = messages(batch)?;
    let base = set.header.base_offset;
    let first = FoundRecord { offset: base.max(start), timestamp: set.header.max_timestamp, epoch: -1 };
    if set.header.timestamp_type() == TimestampType::LogAppendTime {
        return (first.timestamp >= timestamp).then_some(first);
    }
    let mut result = None;
    let mut search = |block: &mut Block| {
        let mut pairs = block.timestamp_delta().iter().zip(block.offset_delta());
        result = pairs
            .find(|(time, offset)| {
                let is_readable = base.saturating_add((**offset).into()) >= start;
                is_readable && set.header.base_timestamp.saturating_add(**time) >= timestamp
            })
            .map(|(&t, &o)| (t, o));
        if result.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    set.walk_blocks(&messages, &mut Block::new(), &mut search).ok()?;
    let (time, offset) = result?;
    let timestamp = set.header.base_timestamp.saturating_add(time);
    Some(FoundRecord { offset: base.saturating_add(offset.into()), timestamp, epoch: -1 })
}

/// Returns the first record whose offset is at least `start` and whose timestamp is at least `timestamp`. If the
/// records cannot be decoded, returns the start of the batch: the broker has validated the header of the batch, but not
/// its compressed content.
pub(crate) fn at_or_after(bytes: Bytes, timestamp: i64, start: i64) -> Option<FoundRecord> {
    let batch = batches(bytes).next()?.ok()?;
    let header = &batch.header;
    if header.magic < 2 {
        return in_messages(&batch, timestamp, start);
    }
    let epoch = header.partition_leader_epoch;
    let first = FoundRecord { offset: header.base_offset.max(start), timestamp: header.max_timestamp, epoch };
    if header.timestamp_type() == TimestampType::LogAppendTime {
        // All records have the append time, which is the maximum timestamp of the batch.
        return (header.max_timestamp >= timestamp).then_some(first);
    }
    let Some(records) = records(&batch) else { return Some(first) };
    let from = timestamp.saturating_sub(header.base_timestamp);
    let mut search = Search { first: start.saturating_sub(header.base_offset), from, result: None };
    if walk(&records, header.record_count, &mut search).is_err() {
        return Some(first);
    }
    let (offset, delta) = search.result?;
    Some(FoundRecord {
        offset: header.base_offset.saturating_add(offset.into()),
        timestamp: header.base_timestamp.saturating_add(delta),
        epoch,
    })
}

/// Returns the first record with the maximum timestamp.
pub(crate) fn latest(bytes: Bytes, start: i64) -> Option<FoundRecord> {
    let batch = batches(bytes.clone()).next()?.ok()?;
    let latest =
        if batch.header.is_wrapper() { messages(&batch)?.1.header.max_timestamp } else { batch.header.max_timestamp };
    // If the records have no timestamps, none has the maximum timestamp.
    if latest < 0 { None } else { at_or_after(bytes, latest, start) }
}

fn messages(batch: &Batch) -> Option<(Vec<u8>, MessageSet)> {
    let mut messages = Vec::new();
    if batch.header.is_wrapper() {
        LegacyDecompressor::new().decompress(batch, &mut messages, MAX_DECOMPRESSED).ok()?;
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
    Decompressor::new().decompress(codec, &batch.payload(), &mut records, MAX_DECOMPRESSED).ok()?;
    Some(records.into())
}
