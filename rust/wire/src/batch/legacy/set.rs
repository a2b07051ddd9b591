//! The messages of one entry: an uncompressed message, or the contents of a wrapper.
use std::ops::ControlFlow;

use super::Message;
use crate::batch::error::LegacyError;
use crate::batch::fast_path::{BLOCK_LEN, Block};
use crate::batch::header::{TimestampType, attributes};
use crate::batch::{Batch, BatchError, BatchErrorKind, BatchHeader, RawRecord, RecordError};
use crate::compression::{Codec, Decompressor, Limits};

/// Decompressor of wrappers. It reuses its contexts.
#[derive(Debug)]
pub struct LegacyDecompressor {
    v0: Decompressor,
    v1: Decompressor,
}

impl Default for LegacyDecompressor {
    fn default() -> Self {
        LegacyDecompressor::new()
    }
}

impl LegacyDecompressor {
    /// Creates a decompressor. Its contexts are created on first use.
    pub fn new() -> LegacyDecompressor {
        // In v0, lz4 frames have a nonstandard header checksum that only Kafka's clients computed; in v1 they have the
        // standard checksum.
        LegacyDecompressor { v0: Decompressor::new().with_legacy_lz4(), v1: Decompressor::new() }
    }

    /// Appends the messages in the wrapper `batch` to `out`, within `limits`.
    pub fn decompress(
        &mut self,
        batch: &Batch,
        out: &mut Vec<u8>,
        limits: impl Into<Limits>,
    ) -> Result<(), BatchError> {
        let fail = |kind: BatchErrorKind| batch.error(kind);
        let header = &batch.header;
        let id = header.codec_id();
        let codec = Codec::from_attributes(id).map_err(|_| fail(BatchErrorKind::Codec { id }))?;
        if codec == Codec::Zstd {
            return Err(fail(LegacyError::Codec { magic: header.magic, codec }.into()));
        }
        let wrapper = Message::read(batch.bytes(), 0)
            .and_then(|message| message.ok_or("length"))
            .map_err(|what| fail(LegacyError::Field { index: 0, what }.into()))?;
        let value = wrapper.value(batch.bytes()).ok_or_else(|| fail(LegacyError::NullWrapper.into()))?;
        let decompressor = if header.magic == 0 { &mut self.v0 } else { &mut self.v1 };
        decompressor.decompress(codec, value, out, limits).map_err(|e| fail(BatchErrorKind::Decompress(e)))
    }
}

/// A scanned set of messages, with the header computed from them.
#[derive(Debug, Clone)]
pub struct MessageSet {
    /// The header that a batch of these messages would have, including their count, base offset and last offset delta.
    /// The magic is still that of the entry.
    pub header: BatchHeader,
    /// The smallest stored offset among the messages. It corresponds to the header's base offset.
    first: i64,
}

impl MessageSet {
    /// Scans the messages of `batch`, an entry of magic 0 or 1. `data` must be the decompressed
    /// [contents](LegacyDecompressor::decompress) of a wrapper, or [the bytes](Batch::bytes) of an uncompressed
    /// message.
    ///
    /// A truncated message at the end of a wrapper is skipped, as in the Java client. If `check_crcs`, the checksums of
    /// the messages in a wrapper are verified. Use [`Batch::check_crc`] to verify the checksum of the entry itself.
    pub fn read(batch: &Batch, data: &[u8], check_crcs: bool) -> Result<MessageSet, BatchError> {
        MessageSet::scan(&batch.header, data, check_crcs).map_err(|kind| batch.error(kind))
    }

    /// Scans a run of uncompressed messages: the message at the start of `batch`, and the messages after it that have
    /// the same magic and attributes and increasing offsets. `data` must be the input of the whole partition. The run
    /// has at most `max_bytes` and `max_messages`. It ends before a malformed message and, if `check_crcs`, before a
    /// message with a wrong checksum; a later call then returns the error. Also returns the end of the last message of
    /// the run.
    pub fn read_run(
        batch: &Batch,
        data: &[u8],
        max_bytes: usize,
        max_messages: usize,
        check_crcs: bool,
    ) -> Result<(MessageSet, usize), BatchError> {
        let entry = &batch.header;
        let start = batch.position;
        let first = Message::read(data, start)
            .and_then(|message| message.ok_or("length"))
            .map_err(|what| batch.error(LegacyError::Field { index: 0, what }.into()))?;
        let append_time = entry.timestamp_type() == TimestampType::LogAppendTime;
        let (mut last, mut count, mut latest) = (first, 1, first.timestamp);
        while count < max_messages.min(i32::MAX as usize)
            && let Ok(Some(next)) = Message::read(data, last.end)
            && (next.magic, next.attributes) == (first.magic, first.attributes)
            && next.offset > last.offset
            && next.offset < i64::MAX
            && next.offset.checked_sub(first.offset).is_some_and(|reach| reach < i64::from(i32::MAX))
            && next.end - start <= max_bytes
            // All messages of a run must have the same append time, because a header has only one.
            && !(append_time && next.timestamp != first.timestamp)
            && !(check_crcs && next.compute_crc(data) != next.crc)
        {
            latest = latest.max(next.timestamp);
            last = next;
            count += 1;
        }
        let header = BatchHeader {
            last_offset_delta: (last.offset - first.offset) as i32,
            base_timestamp: 0,
            max_timestamp: latest,
            record_count: count as i32,
            ..entry.clone()
        };
        Ok((MessageSet { header, first: first.offset }, last.end))
    }

    fn scan(entry: &BatchHeader, data: &[u8], check_crcs: bool) -> Result<MessageSet, BatchErrorKind> {
        let wrapped = entry.is_wrapper();
        let (mut position, mut count) = (0, 0);
        let (mut first, mut largest, mut last, mut latest) = (i64::MAX, i64::MIN, 0, -1);
        while let Some(message) =
            Message::read(data, position).map_err(|what| LegacyError::Field { index: count, what })?
        {
            if wrapped {
                if message.codec_id() != 0 {
                    return Err(LegacyError::Nested.into());
                }
                if check_crcs {
                    let (expected, actual) = (message.crc, message.compute_crc(data));
                    if actual != expected {
                        return Err(LegacyError::InnerCrc { index: count, expected, actual }.into());
                    }
                }
            }
            first = first.min(message.offset);
            largest = largest.max(message.offset);
            last = message.offset;
            latest = latest.max(message.timestamp);
            position = message.end;
            count += 1;
        }
        if count == 0 {
            return Err(LegacyError::EmptyWrapper.into());
        }
        let shift = if wrapped { offset_shift(entry, last)? } else { 0 };
        // Messages may not be ordered by offset, so use the largest offset instead of the last.
        let base = first.checked_add(shift).ok_or(LegacyError::Offsets)?;
        let reach = largest.checked_sub(first).and_then(|reach| i32::try_from(reach).ok());
        let last_offset_delta = reach.ok_or(LegacyError::Offsets)?;
        // Reject the largest possible offset, because it has no next offset. The parser of headers does the same for
        // single messages.
        base.checked_add(i64::from(last_offset_delta)).filter(|last| *last < i64::MAX).ok_or(LegacyError::Offsets)?;
        let append_time = entry.timestamp_type() == TimestampType::LogAppendTime;
        let header = BatchHeader {
            base_offset: base,
            last_offset_delta,
            attributes: attributes(0, entry.timestamp_type(), false, false),
            // The append time of a wrapper applies to all messages in it.
            base_timestamp: 0,
            max_timestamp: if append_time { entry.max_timestamp } else { latest },
            record_count: i32::try_from(count).map_err(|_| LegacyError::Offsets)?,
            ..entry.clone()
        };
        Ok(MessageSet { header, first })
    }

    /// Returns true if all messages have the same magic as the entry. Brokers ensure this.
    pub fn is_uniform(&self, data: &[u8]) -> bool {
        let mut position = 0;
        while let Ok(Some(message)) = Message::read(data, position) {
            if message.magic != self.header.magic {
                return false;
            }
            position = message.end;
        }
        true
    }

    /// Visits the messages one [`Block`] at a time, with offsets and timestamps relative to those of
    /// [`header`](Self::header). `data` must be the same as for [`read`](Self::read).
    pub fn walk_blocks(
        &self,
        data: &[u8],
        block: &mut Block,
        visit: &mut dyn FnMut(&mut Block) -> ControlFlow<()>,
    ) -> Result<(), RecordError> {
        let malformed = |index, what| RecordError::Field { index, what };
        let count = self.header.record_count;
        let too_few = |actual| RecordError::TooFew { expected: count, actual };
        let expected = usize::try_from(count).map_err(|_| too_few(0))?;
        let (mut position, mut done) = (0, 0);
        while done < expected {
            block.clear();
            while block.len() < BLOCK_LEN && done < expected {
                let message = Message::read(data, position).and_then(|message| message.ok_or("length"));
                let message = message.map_err(|what| malformed(done, what))?;
                let delta = i32::try_from(message.offset.wrapping_sub(self.first));
                let put = block.push(&RawRecord {
                    timestamp_delta: message.timestamp,
                    offset_delta: delta.map_err(|_| malformed(done, "offset"))?,
                    key_len: message.key_len,
                    key_start: message.key_start,
                    value_start: message.value_start,
                    value_len: message.value_len,
                    header_count: 0,
                    headers_start: message.end,
                    end: message.end,
                });
                if !put {
                    return Err(too_few(done));
                }
                position = message.end;
                done += 1;
            }
            if visit(block).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the number to add to the stored offsets in a wrapper to make them absolute. `last` is the stored offset of
/// the last message.
fn offset_shift(wrapper: &BatchHeader, last: i64) -> Result<i64, LegacyError> {
    let offset = wrapper.base_offset;
    // Some versions of librdkafka left the wrapper's offset at 0, and such messages may still be in logs. In v0, a
    // negative offset of the wrapper is harmless, too, because the offsets of the messages in the wrapper are absolute.
    if offset == 0 || (offset < 0 && wrapper.magic == 0) {
        return Ok(0);
    }
    if offset < last {
        return Err(LegacyError::WrapperOffset { wrapper: offset, last });
    }
    if wrapper.magic == 0 { Ok(0) } else { offset.checked_sub(last).ok_or(LegacyError::Offsets) }
}
