//! Validation and offset assignment of messages in formats v0 and v1, which are stored without conversion.

use std::ops::ControlFlow;

use bytes::Bytes;
use samsarrow_wire::batch::patch::set_base_offset;
use samsarrow_wire::batch::{
    Append, Batch, Block, EncodeError, LegacyBuilder, LegacyDecompressor, LegacyOptions, MessageSet, TimestampType,
    batches,
};
use samsarrow_wire::compression::{Codec, Compressor};
use samsarrow_wire::error_code::ErrorCode;

use super::validate::{Rejection, reject};

/// Maximum decompressed size of a wrapper message, in bytes.
const MAX_DECOMPRESSED: usize = 256 << 20;

/// A validated message or wrapper message.
#[derive(Debug)]
pub(crate) struct Entry {
    bytes: Bytes,
    /// Decompressed inner messages of a wrapper, and their parsed index.
    inner: Option<(Vec<u8>, MessageSet)>,
    magic: i8,
    pub(crate) max_timestamp: i64,
}

impl Entry {
    /// Returns the number of offsets that the entry occupies.
    pub(crate) fn count(&self) -> i64 {
        self.inner.as_ref().map_or(1, |(_, set)| set.header.record_count.into())
    }

    /// Returns the encoded entry with offsets from `base` on. A wrapper is compressed again only if its inner offsets
    /// must change; otherwise only the offset of the wrapper is set, which the checksum does not cover.
    pub(crate) fn with_offsets(&self, base: i64) -> Result<Vec<u8>, EncodeError> {
        let mut bytes = self.bytes.to_vec();
        let Some((messages, set)) = &self.inner else {
            set_base_offset(&mut bytes, base, -1)?;
            return Ok(bytes);
        };
        let header = &set.header;
        let dense = header.last_offset_delta == header.record_count - 1 && has_dense_offsets(set, messages);
        if dense && (self.magic == 1 || header.base_offset == base) {
            set_base_offset(&mut bytes, base + self.count() - 1, -1)?;
            return Ok(bytes);
        }
        let codec = Codec::from_attributes(self.bytes.get(17).map_or(0, |&byte| byte.into()))?;
        let options = LegacyOptions { magic: self.magic, base_offset: base, max_bytes: usize::MAX };
        let mut builder = LegacyBuilder::new(options)?;
        let mut failure = None;
        let mut rebuild = |block: &mut Block| {
            for record in block.records() {
                let timestamp = header.base_timestamp.wrapping_add(record.timestamp_delta);
                let (key, value) = (record.key(messages), record.value(messages));
                match builder.append(timestamp, key, value, std::iter::empty()) {
                    Ok(Append::Added(_)) => {}
                    Ok(Append::Full) => failure = Some(EncodeError::RecordTooLarge { size: messages.len() }),
                    Err(error) => failure = Some(error),
                }
            }
            ControlFlow::Continue(())
        };
        // `walk_blocks` cannot fail, because the messages were parsed successfully before.
        let _ = set.walk_blocks(messages, &mut Block::new(), &mut rebuild);
        match failure {
            Some(error) => Err(error),
            None => builder.finish(&mut Compressor::new(codec, None)?),
        }
    }
}

fn has_dense_offsets(set: &MessageSet, messages: &[u8]) -> bool {
    let mut next = 0;
    let mut check = |block: &mut Block| {
        for delta in block.offset_delta() {
            if *delta != next {
                return ControlFlow::Break(());
            }
            next += 1;
        }
        ControlFlow::Continue(())
    };
    let walked = set.walk_blocks(messages, &mut Block::new(), &mut check);
    walked.is_ok() && next == set.header.record_count
}

/// Validates the messages of one partition in a Produce request of version 0 to 2.
pub(crate) fn validate(data: &Bytes, max_bytes: usize) -> Result<Vec<Entry>, Rejection> {
    let mut entries = Vec::new();
    let mut compressed = false;
    let mut iter = batches(data.clone());
    for batch in &mut iter {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => return reject(ErrorCode::CORRUPT_MESSAGE, error.to_string()),
        };
        if let Err(error) = batch.check_crc() {
            return reject(ErrorCode::CORRUPT_MESSAGE, error.to_string());
        }
        let entry = validate_one(&batch, max_bytes)?;
        compressed |= entry.inner.is_some();
        entries.push(entry);
    }
    if iter.truncated_tail() {
        return reject(ErrorCode::INVALID_RECORD, "the last message is cut off");
    }
    if compressed && entries.len() > 1 {
        return reject(ErrorCode::INVALID_RECORD, "a compressed message must be the only one for its partition");
    }
    Ok(entries)
}

fn validate_one(batch: &Batch, max_bytes: usize) -> Result<Entry, Rejection> {
    let header = &batch.header;
    if header.magic >= 2 {
        return reject(ErrorCode::INVALID_RECORD, "a record batch of magic 2 needs Produce v3 or later");
    }
    if batch.bytes().len() > max_bytes {
        let size = batch.bytes().len();
        return reject(
            ErrorCode::MESSAGE_TOO_LARGE,
            format!("the message of {size} bytes exceeds the limit of {max_bytes} (max.message.bytes)"),
        );
    }
    if header.timestamp_type() == TimestampType::LogAppendTime {
        return reject(ErrorCode::INVALID_TIMESTAMP, "only the broker may set the timestamp type LogAppendTime");
    }
    let invalid = |error: &dyn std::fmt::Display| reject(ErrorCode::INVALID_RECORD, error.to_string());
    let (bytes, magic) = (batch.bytes().clone(), header.magic);
    if !header.is_wrapper() {
        // Checks that the key and value are within the bounds of a message.
        return match MessageSet::read(batch, &bytes, false) {
            Ok(set) => Ok(Entry { bytes, inner: None, magic, max_timestamp: set.header.max_timestamp }),
            Err(error) => invalid(&error),
        };
    }
    if header.codec_id() >= Codec::Zstd.id() {
        return reject(
            ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            format!("compression codec {} is not taken in messages of magic {magic}", header.codec_id()),
        );
    }
    let mut messages = Vec::new();
    if let Err(error) = LegacyDecompressor::new().decompress(batch, &mut messages, MAX_DECOMPRESSED) {
        return invalid(&error);
    }
    match MessageSet::read(batch, &messages, true) {
        Ok(set) if !set.is_uniform(&messages) => {
            reject(ErrorCode::INVALID_RECORD, "a compressed message holds messages of another magic than its own")
        }
        Ok(set) => Ok(Entry { bytes, max_timestamp: set.header.max_timestamp, inner: Some((messages, set)), magic }),
        Err(error) => invalid(&error),
    }
}
