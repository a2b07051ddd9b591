//! Records in the logs of the broker.

use std::ops::ControlFlow;

use samsarrow_broker::{Broker, Codec};
use samsarrow_wire::batch::{BatchHeader, ControlType, RawRecord, RecordVisitor, walk};
use samsarrow_wire::compression::Decompressor;

/// A record in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) offset: i64,
    pub(crate) value: String,
    pub(crate) producer_id: i64,
    /// For a transaction marker, true if it commits; `value` is empty.
    pub(crate) control: Option<bool>,
}

struct Collector<'a> {
    header: &'a BatchHeader,
    stored: &'a mut Vec<Stored>,
}

impl RecordVisitor for Collector<'_> {
    fn record(&mut self, data: &[u8], record: &RawRecord) -> ControlFlow<()> {
        let control = self
            .header
            .is_control()
            .then(|| record.key(data).and_then(ControlType::from_key).is_some_and(|kind| kind == ControlType::Commit));
        let value = if control.is_some() { None } else { record.value(data) };
        self.stored.push(Stored {
            offset: self.header.base_offset + i64::from(record.offset_delta),
            value: String::from_utf8_lossy(value.unwrap_or_default()).into_owned(),
            producer_id: self.header.producer_id,
            control,
        });
        ControlFlow::Continue(())
    }
}

/// Returns all records of a partition.
///
/// # Errors
/// Returns a description of a batch that cannot be read.
pub(crate) fn read(broker: &Broker, topic: &str, partition: i32) -> Result<Vec<Stored>, String> {
    let at = |error: &dyn std::fmt::Display| format!("the log of {topic}-{partition} cannot be read: {error}");
    let batches = broker.batches(topic, partition).ok_or_else(|| at(&"no such partition"))?;
    let mut stored = Vec::new();
    let mut decompressor = Decompressor::new();
    for batch in batches {
        batch.check_crc().map_err(|error| at(&error))?;
        let codec = Codec::from_attributes(batch.header.attributes).map_err(|error| at(&error))?;
        let payload = batch.payload();
        let mut records = Vec::new();
        if codec == Codec::None {
            records.extend_from_slice(&payload);
        } else {
            decompressor.decompress(codec, &payload, &mut records, 1 << 30).map_err(|error| at(&error))?;
        }
        let mut collector = Collector { header: &batch.header, stored: &mut stored };
        walk(&records, batch.header.record_count, &mut collector).map_err(|error| at(&error))?;
    }
    let gap = stored.windows(2).find(|pair| matches!(pair, [a, b] if b.offset != a.offset + 1));
    match gap {
        Some(pair) => Err(at(&format!("offsets are not contiguous: {pair:?}"))),
        None => Ok(stored),
    }
}
