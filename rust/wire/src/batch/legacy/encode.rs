//! Encoder of messages of formats v0 and v1.
use std::ops::ControlFlow;

use bytes::Bytes;

use crate::batch::encode::{Append, EncodeError};
use crate::batch::error::LegacyError;
use crate::batch::header::{LEGACY_CRC_END, LENGTH_END, MAGIC_AT, V0_FIXED_LEN, V1_FIXED_LEN};
use crate::batch::{BatchErrorKind, Header, RawRecord, RecordVisitor, batches, walk};
use crate::compression::{Codec, Compressor, Decompressor};
use crate::crc::crc32;

/// Format and limits of a message set to build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegacyOptions {
    /// 0 or 1.
    pub magic: i8,
    /// Offset of the first message. Brokers replace it when they append the set.
    pub base_offset: i64,
    /// Maximum uncompressed size of the set. A message that would exceed it is not added, unless it is the first
    /// message of the set.
    pub max_bytes: usize,
}

impl Default for LegacyOptions {
    fn default() -> Self {
        LegacyOptions { magic: 1, base_offset: 0, max_bytes: 16 * 1024 }
    }
}

/// Builder of message sets, which are uncompressed or compressed in a wrapper.
#[derive(Debug)]
pub struct LegacyBuilder {
    options: LegacyOptions,
    /// The encoded messages. Their offsets count from 0 until the set is finished.
    buffer: Vec<u8>,
    count: i32,
    max_timestamp: i64,
}

impl LegacyBuilder {
    /// Creates a builder with an empty set; `options.magic` must be 0 or 1.
    pub fn new(options: LegacyOptions) -> Result<LegacyBuilder, EncodeError> {
        match options.magic {
            0 | 1 => Ok(LegacyBuilder { options, buffer: Vec::new(), count: 0, max_timestamp: -1 }),
            magic => Err(EncodeError::Magic { magic }),
        }
    }

    /// Returns the options. All except the magic may be changed until [`finish`](Self::finish).
    pub fn options_mut(&mut self) -> &mut LegacyOptions {
        &mut self.options
    }

    /// Returns the number of messages.
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Returns true if the set has no messages.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the current size of the messages, uncompressed.
    pub fn size(&self) -> usize {
        self.buffer.len()
    }

    /// Appends a message. `timestamp` is in milliseconds since 1970, -1 for none; v0 does not store it. Fails if the
    /// record has headers, since neither format supports headers.
    pub fn append<'h>(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = Header<'h>>,
    ) -> Result<Append, EncodeError> {
        let magic = self.options.magic;
        if headers.count() > 0 {
            return Err(EncodeError::Headers { magic });
        }
        let size = fixed_len(magic)
            .saturating_add(8)
            .saturating_add(key.map_or(0, <[u8]>::len))
            .saturating_add(value.map_or(0, <[u8]>::len));
        if size > i32::MAX as usize - V1_FIXED_LEN - 8 {
            return Err(EncodeError::RecordTooLarge { size });
        }
        let limit = self.options.max_bytes.min(i32::MAX as usize);
        if self.count > 0 && (self.buffer.len() + size > limit || self.count == i32::MAX) {
            return Ok(Append::Full);
        }
        self.max_timestamp = if self.count == 0 { timestamp } else { self.max_timestamp.max(timestamp) };
        put_message(&mut self.buffer, magic, self.count.into(), 0, timestamp, key, value);
        self.count += 1;
        Ok(Append::Added(self.count - 1))
    }

    /// Finishes the set and returns its bytes: the messages, or a wrapper of the messages if the compressor has a
    /// codec. The builder continues with an empty set.
    pub fn finish(&mut self, compressor: &mut Compressor) -> Result<Vec<u8>, EncodeError> {
        let (magic, codec, base) = (self.options.magic, compressor.codec(), self.options.base_offset);
        if codec == Codec::Zstd {
            return Err(EncodeError::Legacy(LegacyError::Codec { magic, codec }));
        }
        let mut messages = std::mem::take(&mut self.buffer);
        let (count, max_timestamp) = (i64::from(self.count), self.max_timestamp);
        self.count = 0;
        if count == 0 {
            return Ok(messages);
        }
        // Messages in a v1 wrapper have relative offsets; all other messages have absolute offsets.
        if base != 0 && (magic == 0 || codec == Codec::None) {
            number_messages(&mut messages, base);
        }
        if codec == Codec::None {
            return Ok(messages);
        }
        let mut value = Vec::new();
        compressor.compress_for(magic, &messages, &mut value)?;
        let size = fixed_len(magic) + 8 + value.len();
        if size > i32::MAX as usize {
            return Err(EncodeError::RecordTooLarge { size });
        }
        messages.clear();
        messages.reserve_exact(size);
        let last = base.saturating_add(count - 1);
        put_message(&mut messages, magic, last, codec.id() as u8, max_timestamp, None, Some(&value));
        Ok(messages)
    }
}

/// Converts a single v2 batch to format v0 or v1. The messages are compressed with the codec of `compressor`.
///
/// Fails if the batch is transactional, is a control batch, or has headers, since these formats do not support any of
/// these. The producer id and sequence of an idempotent producer are dropped; v0 also drops the timestamps. The
/// messages get consecutive offsets that start at the base offset.
pub fn convert(batch: Bytes, magic: i8, compressor: &mut Compressor) -> Result<Vec<u8>, EncodeError> {
    let not_a_batch = |kind: BatchErrorKind| EncodeError::NotABatch(kind);
    let length = batch.len() as i32 - LENGTH_END as i32;
    let batch = match batches(batch).next() {
        Some(Ok(batch)) if batch.header.magic == 2 => batch,
        Some(Ok(batch)) => return Err(not_a_batch(BatchErrorKind::UnknownMagic { magic: batch.header.magic })),
        Some(Err(error)) => return Err(not_a_batch(error.kind)),
        None => return Err(not_a_batch(BatchErrorKind::Length { length })),
    };
    let header = &batch.header;
    if header.is_transactional() || header.is_control() {
        return Err(EncodeError::Transactional { magic });
    }
    let id = header.codec_id();
    let codec = Codec::from_attributes(id).map_err(|_| not_a_batch(BatchErrorKind::Codec { id }))?;
    let mut records = batch.payload();
    if codec != Codec::None {
        let mut plain = Vec::new();
        Decompressor::new().decompress(codec, &records, &mut plain, i32::MAX as usize)?;
        records = Bytes::from(plain);
    }
    let options = LegacyOptions { magic, base_offset: header.base_offset, max_bytes: usize::MAX };
    let mut converter =
        Converter { builder: LegacyBuilder::new(options)?, base_timestamp: header.base_timestamp, failure: None };
    let walked = walk(&records, header.record_count, &mut converter);
    match converter.failure {
        Some(error) => return Err(error),
        None => walked.map_err(|error| not_a_batch(error.into()))?,
    }
    converter.builder.finish(compressor)
}

struct Converter {
    builder: LegacyBuilder,
    base_timestamp: i64,
    failure: Option<EncodeError>,
}

impl RecordVisitor for Converter {
    fn record(&mut self, data: &[u8], record: &RawRecord) -> ControlFlow<()> {
        let timestamp = self.base_timestamp.wrapping_add(record.timestamp_delta);
        let size = self.builder.size();
        match self.builder.append(timestamp, record.key(data), record.value(data), record.headers(data)) {
            Ok(Append::Added(_)) => return ControlFlow::Continue(()),
            Ok(Append::Full) => self.failure = Some(EncodeError::RecordTooLarge { size }),
            Err(error) => self.failure = Some(error),
        }
        ControlFlow::Break(())
    }
}

fn fixed_len(magic: i8) -> usize {
    if magic == 0 { V0_FIXED_LEN } else { V1_FIXED_LEN }
}

fn put_message(
    out: &mut Vec<u8>,
    magic: i8,
    offset: i64,
    attributes: u8,
    timestamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) {
    let start = out.len();
    out.extend_from_slice(&offset.to_be_bytes());
    // Placeholders for the length and the checksum, which are set below.
    out.extend_from_slice(&[0; MAGIC_AT - 8]);
    out.extend_from_slice(&[magic as u8, attributes]);
    if magic == 1 {
        out.extend_from_slice(&timestamp.to_be_bytes());
    }
    for field in [key, value] {
        // The cast cannot overflow, because the callers have checked the sizes.
        out.extend_from_slice(&field.map_or(-1, |field| field.len() as i32).to_be_bytes());
        // A null field has a length of -1 and no bytes.
        out.extend_from_slice(field.unwrap_or_default());
    }
    let Some(message) = out.get_mut(start..) else { return };
    let length = message.len() - LENGTH_END;
    if let Some(at) = message.get_mut(8..LENGTH_END) {
        at.copy_from_slice(&(length as i32).to_be_bytes());
    }
    write_crc(message);
}

/// Updates the checksum of a message.
pub(in crate::batch) fn write_crc(message: &mut [u8]) {
    let crc = message.get(LEGACY_CRC_END..).map_or(0, crc32);
    if let Some(at) = message.get_mut(LENGTH_END..LEGACY_CRC_END) {
        at.copy_from_slice(&crc.to_be_bytes());
    }
}

/// Sets consecutive offsets that start at `base`. The checksums stay valid, because they do not cover the offsets.
fn number_messages(mut messages: &mut [u8], base: i64) {
    let mut offset = base;
    while let Some(prefix) = messages.first_chunk::<LENGTH_END>() {
        let (_, length) = crate::batch::header::offset_and_length(prefix);
        if let Some(at) = messages.get_mut(..8) {
            at.copy_from_slice(&offset.to_be_bytes());
        }
        offset = offset.saturating_add(1);
        let Ok(length) = usize::try_from(length) else { return };
        let Some((_, rest)) = messages.split_at_mut_checked(LENGTH_END + length) else { return };
        messages = rest;
    }
}
