//! Iterator over the records of a batch. A batch may have far more records than one step of a dump may write.
use bytes::Bytes;

use super::text_output::{self, RecordLine};
use crate::batch::legacy::Message;
use crate::batch::record::{MIN_RECORD_LEN, read_record};
use crate::batch::{Batch, BatchErrorKind, BatchHeader, LegacyDecompressor, MessageSet, RecordError, TimestampType};
use crate::compression::{Codec, Decompressor, Limits};

/// Maximum capacity of a buffer that is kept for reuse.
const MAX_KEPT: usize = 8 << 20;

/// Decompressors and their buffer, which are reused for all batches.
#[derive(Debug, Default)]
pub(super) struct BatchReader {
    decompressor: Decompressor,
    legacy: LegacyDecompressor,
    buffer: Vec<u8>,
}

impl BatchReader {
    /// Opens the records of `batch`. For an older format, these are the uncompressed message or the messages in the
    /// wrapper.
    pub(super) fn open(&mut self, batch: &Batch, limits: Limits) -> Result<Records, BatchErrorKind> {
        let header = batch.header.clone();
        let mut decompressed = std::mem::take(&mut self.buffer);
        decompressed.clear();
        if header.magic < 2 {
            let data = if header.is_wrapper() {
                self.legacy.decompress(batch, &mut decompressed, limits).map_err(|error| error.kind)?;
                Data::Decompressed(decompressed)
            } else {
                Data::Stored(batch.bytes().clone())
            };
            let set = MessageSet::read(batch, data.bytes(), false).map_err(|error| error.kind)?;
            let first = messages(data.bytes()).map(|message| message.offset).min().unwrap_or(0);
            return Ok(Records { header: set.header, first, data, at: 0, done: 0 });
        }
        let id = header.codec_id();
        let codec = Codec::from_attributes(id).map_err(|_| BatchErrorKind::Codec { id })?;
        let payload = batch.payload();
        let data = if codec == Codec::None || payload.is_empty() {
            Data::Stored(payload)
        } else {
            let done = self.decompressor.decompress(codec, &payload, &mut decompressed, limits);
            done.map_err(BatchErrorKind::Decompress)?;
            Data::Decompressed(decompressed)
        };
        let records = Records { header, first: 0, data, at: 0, done: 0 };
        // Check the record count before reading, because the bytes may be too few for so many records.
        if records.expected() > records.data.bytes().len() / MIN_RECORD_LEN {
            return Err(RecordError::TooFew { expected: records.header.record_count, actual: 0 }.into());
        }
        Ok(records)
    }

    /// Keeps the buffer of `records` for reuse.
    pub(super) fn close(&mut self, records: Records) {
        if let Data::Decompressed(buffer) = records.data
            && buffer.capacity() <= MAX_KEPT
        {
            self.buffer = buffer;
        }
    }
}

/// Returns the maximum timestamp of the records in `batch`, or -1 if it has no records.
pub(super) fn max_timestamp(
    batch_reader: &mut BatchReader,
    batch: &Batch,
    limits: Limits,
) -> Result<i64, BatchErrorKind> {
    if batch.header.timestamp_type() == TimestampType::LogAppendTime && batch.header.record_count != 0 {
        return Ok(batch.header.max_timestamp);
    }
    let mut records = batch_reader.open(batch, limits)?;
    let mut largest = -1;
    while let Some(record) = records.next(false)? {
        largest = largest.max(record.timestamp);
    }
    batch_reader.close(records);
    Ok(largest)
}

#[derive(Debug)]
enum Data {
    Stored(Bytes),
    Decompressed(Vec<u8>),
}

impl Data {
    fn bytes(&self) -> &[u8] {
        match self {
            Data::Stored(bytes) => bytes,
            Data::Decompressed(bytes) => bytes,
        }
    }
}

/// Records that are read one by one.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) header: BatchHeader,
    /// Smallest stored offset of the messages, which is relative in a v1 wrapper.
    first: i64,
    data: Data,
    at: usize,
    done: usize,
}

impl Records {
    fn expected(&self) -> usize {
        usize::try_from(self.header.record_count).unwrap_or(usize::MAX)
    }

    /// Returns the next record, or `None` after the last record. Must not be called again after an error.
    pub(super) fn next(&mut self, print_data: bool) -> Result<Option<RecordLine<'_>>, BatchErrorKind> {
        if self.header.magic < 2 {
            return Ok(self.next_message(print_data));
        }
        let (data, header) = (self.data.bytes(), &self.header);
        if self.done == self.expected() {
            let left = data.len().saturating_sub(self.at);
            return match left {
                0 => Ok(None),
                _ => Err(RecordError::TooMany { expected: header.record_count, left }.into()),
            };
        }
        if self.at >= data.len() {
            return Err(RecordError::TooFew { expected: header.record_count, actual: self.done }.into());
        }
        let malformed = |what| RecordError::Field { index: self.done, what };
        let record = read_record(data, self.at).map_err(malformed)?;
        if !(0..=header.last_offset_delta).contains(&record.offset_delta) {
            return Err(malformed("offset delta").into());
        }
        (self.at, self.done) = (record.end, self.done + 1);
        Ok(Some(RecordLine {
            offset: header.base_offset.wrapping_add(i64::from(record.offset_delta)),
            timestamp_type: Some(header.timestamp_type()),
            timestamp: match header.timestamp_type() {
                TimestampType::CreateTime => header.base_timestamp.wrapping_add(record.timestamp_delta),
                TimestampType::LogAppendTime => header.max_timestamp,
            },
            key: record.key(data),
            value: record.value(data),
            sequence: Some(text_output::sequence(header, record.offset_delta)),
            headers: Some(record.headers(data)),
            legacy_crc: None,
            control: header.is_control(),
            print_data,
        }))
    }

    fn next_message(&mut self, print_data: bool) -> Option<RecordLine<'_>> {
        let (data, header) = (self.data.bytes(), &self.header);
        let message = Message::read(data, self.at).ok().flatten()?;
        self.at = message.end;
        let append_time = header.timestamp_type() == TimestampType::LogAppendTime;
        Some(RecordLine {
            offset: header.base_offset.wrapping_add(message.offset.wrapping_sub(self.first)),
            timestamp_type: (header.magic > 0).then(|| header.timestamp_type()),
            timestamp: if append_time { header.max_timestamp } else { message.timestamp },
            key: message.key(data),
            value: message.value(data),
            sequence: None,
            headers: None,
            legacy_crc: Some((message.compute_crc(data) == message.crc, message.crc)),
            control: false,
            print_data,
        })
    }
}

/// Iterates over the messages in `data`, up to the first truncated or malformed message.
fn messages(data: &[u8]) -> impl Iterator<Item = Message> {
    let next = |at: usize| Message::read(data, at).ok().flatten();
    std::iter::successors(next(0), move |message| next(message.end))
}
