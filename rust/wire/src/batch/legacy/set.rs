//! The messages of one entry: a plain message, or what a wrapper holds.
use std::ops::ControlFlow;

use super::Message;
use crate::batch::block::{BLOCK_LEN, Block};
use crate::batch::error::LegacyError;
use crate::batch::header::{TimestampType, attributes};
use crate::batch::{Batch, BatchError, BatchErrorKind, BatchHeader, RawRecord, RecordError};
use crate::compression::{Codec, Decompressor, Limits};

/// Decompresses wrappers; contexts are reused.
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
    /// Without contexts yet.
    pub fn new() -> LegacyDecompressor {
        // The lz4 frames of v0 have a header checksum that only Kafka ever computed so; those of v1 have the right one.
        LegacyDecompressor { v0: Decompressor::new().with_legacy_lz4(), v1: Decompressor::new() }
    }

    /// Appends the messages in the wrapper `batch` to `out`, as far as `limits` go.
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

/// Messages that were looked through once, and what is known of them since.
#[derive(Debug, Clone)]
pub struct MessageSet {
    /// A header as a batch of these messages would have it, with their number, their first offset and the reach to the
    /// last; its magic is the entry's.
    pub header: BatchHeader,
    /// The smallest offset as it is written, which is the base offset less what the others lack, too.
    first: i64,
}

impl MessageSet {
    /// Looks through the messages of `batch`, an entry of magic 0 or 1: `data` is what its wrapper
    /// [holds](LegacyDecompressor::decompress), or [its bytes](Batch::bytes) where it is none.
    ///
    /// A message that is cut off at the end of a wrapper is left out, as by the Java client. With `check_crcs` the
    /// checksums in a wrapper are checked; the entry's own is [another matter](Batch::check_crc).
    pub fn read(batch: &Batch, data: &[u8], check_crcs: bool) -> Result<MessageSet, BatchError> {
        MessageSet::look_through(&batch.header, data, check_crcs).map_err(|kind| batch.error(kind))
    }

    /// As [`read`](Self::read) for a plain message of which `data` is the whole surroundings, together with those
    /// behind it that are of the same kind: up to `max_bytes` and `max_messages`, with rising offsets, and with the
    /// right checksum if `check_crcs`. What is wrong with others is left to those who come to them. Also returns where
    /// the last of them ends.
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
            // A header has one append time.
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

    fn look_through(entry: &BatchHeader, data: &[u8], check_crcs: bool) -> Result<MessageSet, BatchErrorKind> {
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
        let shift = if wrapped { shift(entry, last)? } else { 0 };
        // Of messages in another order than that of their offsets, the largest counts.
        let base = first.checked_add(shift).ok_or(LegacyError::Offsets)?;
        let reach = largest.checked_sub(first).and_then(|reach| i32::try_from(reach).ok());
        let last_offset_delta = reach.ok_or(LegacyError::Offsets)?;
        // As in an entry by itself, an offset must follow.
        base.checked_add(i64::from(last_offset_delta)).filter(|last| *last < i64::MAX).ok_or(LegacyError::Offsets)?;
        let append_time = entry.timestamp_type() == TimestampType::LogAppendTime;
        let header = BatchHeader {
            base_offset: base,
            last_offset_delta,
            attributes: attributes(0, entry.timestamp_type(), false, false),
            // What a wrapper says of the append time holds for all that it wraps.
            base_timestamp: 0,
            max_timestamp: if append_time { entry.max_timestamp } else { latest },
            record_count: i32::try_from(count).map_err(|_| LegacyError::Offsets)?,
            ..entry.clone()
        };
        Ok(MessageSet { header, first })
    }

    /// Whether all messages have the magic of the entry; brokers see to it.
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

    /// Visits the messages a [`Block`] at a time, with offsets and timestamps as differences to those of
    /// [`header`](Self::header). `data` is what the set was [read](Self::read) from.
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

/// What is to be added to the offsets in a wrapper, the last of which is `last`.
fn shift(wrapper: &BatchHeader, last: i64) -> Result<i64, LegacyError> {
    let offset = wrapper.base_offset;
    // Some versions of librdkafka left the wrapper's offset at 0, and so it may still lie in what they sent. In v0 the
    // offsets inside need no help, so that one below 0 does no harm either.
    if offset == 0 || (offset < 0 && wrapper.magic == 0) {
        return Ok(0);
    }
    if offset < last {
        return Err(LegacyError::WrapperOffset { wrapper: offset, last });
    }
    if wrapper.magic == 0 { Ok(0) } else { offset.checked_sub(last).ok_or(LegacyError::Offsets) }
}
