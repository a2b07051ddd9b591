//! Finding a record by its time inside of a batch.

use std::ops::ControlFlow;

use bytes::Bytes;
use samsarrow_wire::batch::{Batch, RawRecord, RecordVisitor, TimestampType, batches, walk};
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
    from: i64,
    found: Option<(i32, i64)>,
}

impl RecordVisitor for Search {
    fn record(&mut self, _data: &[u8], record: &RawRecord) -> ControlFlow<()> {
        if record.timestamp_delta < self.from {
            return ControlFlow::Continue(());
        }
        self.found = Some((record.offset_delta, record.timestamp_delta));
        ControlFlow::Break(())
    }
}

/// The first record at or after `timestamp`. Where the records cannot be read (the broker checks the batch, not what
/// is compressed in it), the start of the batch stands for them.
pub(crate) fn at_or_after(bytes: Bytes, timestamp: i64) -> Option<Found> {
    let batch = batches(bytes).next()?.ok()?;
    let header = &batch.header;
    let epoch = header.partition_leader_epoch;
    let first = Found { offset: header.base_offset, timestamp: header.max_timestamp, epoch };
    if header.timestamp_type() == TimestampType::LogAppendTime {
        // One time for all records.
        return (header.max_timestamp >= timestamp).then_some(first);
    }
    let Some(records) = records(&batch) else { return Some(first) };
    let mut search = Search { from: timestamp.saturating_sub(header.base_timestamp), found: None };
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
pub(crate) fn latest(bytes: Bytes) -> Option<Found> {
    let latest = batches(bytes.clone()).next()?.ok()?.header.max_timestamp;
    // A batch whose records have no time has none that is latest.
    if latest < 0 { None } else { at_or_after(bytes, latest) }
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
