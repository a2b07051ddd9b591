//! Encoder of record batches.
mod error;
mod plain;
mod run;
mod template;
mod varint_word;

pub use self::error::EncodeError;
pub use self::plain::{EqualLengthRows, MAX_EQUAL_LENGTH_ROWS, PlainRecord, PlainRows};
use self::varint_word::{VarintWord, write_varints, zigzag};
use super::error::BatchErrorKind;
use super::header::{self, ATTRIBUTES_AT, BatchHeader, CRC_AT, HEADER_LEN, LENGTH_END, TimestampType};
use crate::ShortBytes;
use crate::compression::{Codec, Compressor};

/// Header fields and limits of a batch to build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchOptions {
    /// Offset of the first record. Brokers replace it when they append the batch.
    pub base_offset: i64,
    /// Epoch of the partition leader; -1 in batches from clients.
    pub partition_leader_epoch: i32,
    /// -1 without idempotence.
    pub producer_id: i64,
    /// -1 without idempotence.
    pub producer_epoch: i16,
    /// -1 without idempotence.
    pub base_sequence: i32,
    /// True if the batch is part of a transaction.
    pub transactional: bool,
    /// True if the batch has control records.
    pub control: bool,
    /// Maximum uncompressed size of the batch, including its header. A record that would exceed it is not added, unless
    /// it is the first record of the batch.
    pub max_bytes: usize,
}

impl Default for BatchOptions {
    fn default() -> Self {
        BatchOptions {
            base_offset: 0,
            partition_leader_epoch: -1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            transactional: false,
            control: false,
            max_bytes: 16 * 1024,
        }
    }
}

/// Capacity reserved after each record, because fields are copied in fixed-size blocks that may extend past the record.
/// The buffer is then truncated to the record's end.
const SLACK: usize = 128;

/// Result of [`BatchBuilder::append`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Append {
    /// The record was added. The number is the record's index within the batch, from 0.
    Added(i32),
    /// The batch has no capacity for the record. Finish the batch and append the record to the next batch.
    Full,
}

/// Builder of v2 batches, which are encoded directly to their final bytes.
#[derive(Debug)]
pub struct BatchBuilder {
    options: BatchOptions,
    /// Closed batches, followed by the header (a placeholder until the batch is closed) and the uncompressed records of
    /// the open batch.
    buffer: Vec<u8>,
    /// Start of the open batch in the buffer.
    start: usize,
    count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
}

impl BatchBuilder {
    /// Creates a builder with an empty batch.
    pub fn new(options: BatchOptions) -> BatchBuilder {
        BatchBuilder { options, buffer: Vec::new(), start: 0, count: 0, base_timestamp: 0, max_timestamp: -1 }
    }

    /// Returns the header fields, which may be changed until [`finish`](Self::finish).
    pub fn options_mut(&mut self) -> &mut BatchOptions {
        &mut self.options
    }

    /// Returns the number of records.
    #[inline]
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Returns true if the batch has no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the current uncompressed size of the batch, including its header.
    #[inline]
    pub fn size(&self) -> usize {
        (self.buffer.len() - self.start).max(HEADER_LEN)
    }

    /// Returns the maximum timestamp, or -1 if the batch is empty.
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// Appends a record with `headers`, whose order is kept. `timestamp` is in milliseconds since 1970, -1 for none.
    #[inline]
    pub fn append<'h>(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)> + Clone,
    ) -> Result<Append, EncodeError> {
        self.append_short_bytes(timestamp, key.map(ShortBytes::from), value.map(ShortBytes::from), headers)
    }

    /// Appends a record whose key and value are slices of larger buffers, which is faster than
    /// [`append`](Self::append).
    #[inline]
    pub fn append_short_bytes<'h>(
        &mut self,
        timestamp: i64,
        key: Option<ShortBytes<'_>>,
        value: Option<ShortBytes<'_>>,
        headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)> + Clone,
    ) -> Result<Append, EncodeError> {
        let base_timestamp = if self.count == 0 { timestamp } else { self.base_timestamp };
        let timestamp_delta = timestamp.wrapping_sub(base_timestamp);
        let (header_count, headers_size) = measure_headers(headers.clone());
        let key_len = key.map_or(0, |key| key.len());
        let value_len = value.map_or(0, |value| value.len());
        let (timestamp_part, offset_part) =
            (VarintWord::new(zigzag(timestamp_delta)), VarintWord::new(zigzag(self.count.into())));
        let (key_part, value_part) =
            (VarintWord::of_len(key.map(|key| key.len())), VarintWord::of_len(value.map(|value| value.len())));
        let headers_part = VarintWord::new((header_count as u64) << 1);
        let sizes =
            timestamp_part.size() + offset_part.size() + key_part.size() + value_part.size() + headers_part.size();
        let body = (1 + sizes).saturating_add(key_len).saturating_add(value_len).saturating_add(headers_size);
        if body > i32::MAX as usize - 2 * HEADER_LEN {
            return Err(EncodeError::RecordTooLarge { size: body });
        }
        let length_part = VarintWord::new((body as u64) << 1);
        let size = length_part.size() + body;
        let limit = self.options.max_bytes.min(i32::MAX as usize);
        if self.count > 0 && (self.size() + size > limit || self.count == i32::MAX) {
            return Ok(Append::Full);
        }
        if self.count == 0 {
            self.start(timestamp, size);
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.buffer.reserve(size + SLACK);
        // The record's attributes are a single zero byte.
        write_varints(&mut self.buffer, &[length_part, VarintWord::ZERO, timestamp_part]);
        match key {
            None => write_varints(&mut self.buffer, &[offset_part, key_part, value_part]),
            Some(key) => {
                write_varints(&mut self.buffer, &[offset_part, key_part]);
                key.append_to(&mut self.buffer);
                write_varints(&mut self.buffer, &[value_part]);
            }
        }
        if let Some(value) = value {
            value.append_to(&mut self.buffer);
        }
        if header_count == 0 {
            self.buffer.push(0);
        } else {
            self.put_headers(headers_part, headers);
        }
        self.count += 1;
        Ok(Append::Added(self.count - 1))
    }

    #[cold]
    fn start(&mut self, timestamp: i64, size: usize) {
        self.base_timestamp = timestamp;
        self.max_timestamp = -1;
        self.buffer.truncate(self.start);
        self.buffer.reserve(HEADER_LEN + size);
        self.buffer.resize(self.start + HEADER_LEN, 0);
    }

    fn put_headers<'h>(&mut self, count: VarintWord, headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)>) {
        write_varints(&mut self.buffer, &[count]);
        for (key, value) in headers {
            write_varints(&mut self.buffer, &[VarintWord::of_len(Some(key.len()))]);
            self.buffer.extend_from_slice(key);
            write_varints(&mut self.buffer, &[VarintWord::of_len(value.map(<[u8]>::len))]);
            // A null value has the length -1 and no bytes, so nothing is appended.
            self.buffer.extend_from_slice(value.unwrap_or_default());
        }
    }

    /// Reserves capacity for `bytes` more bytes. This is an optimization: the buffer also grows without it.
    pub fn reserve(&mut self, bytes: usize) {
        self.buffer.reserve(bytes);
    }

    /// Sets the length and checksum of the batch, and returns all bytes since the last call of this method: the
    /// [closed](Self::close) batches, followed by this batch. The builder continues with an empty batch.
    pub fn finish(&mut self, compressor: &mut Compressor) -> Result<Vec<u8>, EncodeError> {
        if self.start > 0 || compressor.codec() == Codec::None {
            self.close(compressor)?;
            self.start = 0;
            let capacity = self.buffer.len().min(self.options.max_bytes);
            return Ok(std::mem::replace(&mut self.buffer, Vec::with_capacity(capacity + capacity / 16)));
        }
        // Compress into a separate buffer, because the batch may be queued for a long time and must not keep the larger
        // buffer of the uncompressed records allocated.
        self.open();
        let mut batch = vec![0; HEADER_LEN];
        compressor.compress(after(&self.buffer, HEADER_LEN)?, &mut batch)?;
        self.seal(compressor.codec(), &mut batch)?;
        self.reset();
        self.buffer.clear();
        Ok(batch)
    }

    /// Finishes the batch but keeps it in the buffer, so that the next batch follows it there.
    pub fn close(&mut self, compressor: &mut Compressor) -> Result<(), EncodeError> {
        self.open();
        if compressor.codec() != Codec::None {
            let records = self.start + HEADER_LEN;
            let mut compressed = Vec::new();
            compressor.compress(after(&self.buffer, records)?, &mut compressed)?;
            self.buffer.truncate(records);
            self.buffer.extend_from_slice(&compressed);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let size = buffer.len();
        let sealed = match buffer.get_mut(self.start..) {
            Some(batch) => self.seal(compressor.codec(), batch),
            None => Err(incomplete_batch(size)),
        };
        self.buffer = buffer;
        sealed?;
        self.start = self.buffer.len();
        self.reset();
        Ok(())
    }

    /// Writes a placeholder header if the batch has no records.
    fn open(&mut self) {
        if self.count == 0 {
            self.start(-1, 0);
        }
    }

    fn seal(&self, codec: Codec, batch: &mut [u8]) -> Result<(), EncodeError> {
        let size = batch.len();
        let head = batch.first_chunk_mut::<HEADER_LEN>().ok_or_else(|| incomplete_batch(size))?;
        self.header(codec, size)?.write(head);
        write_crc(batch);
        Ok(())
    }

    fn reset(&mut self) {
        self.count = 0;
        self.max_timestamp = -1;
    }

    fn header(&self, codec: Codec, size: usize) -> Result<BatchHeader, EncodeError> {
        let o = &self.options;
        let batch_length = i32::try_from(size - LENGTH_END).map_err(|_| EncodeError::RecordTooLarge { size })?;
        Ok(BatchHeader {
            base_offset: o.base_offset,
            batch_length,
            partition_leader_epoch: o.partition_leader_epoch,
            magic: 2,
            crc: 0,
            attributes: header::attributes(codec.id(), TimestampType::CreateTime, o.transactional, o.control),
            last_offset_delta: (self.count - 1).max(0),
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: o.producer_id,
            producer_epoch: o.producer_epoch,
            base_sequence: o.base_sequence,
            record_count: self.count,
        })
    }
}

/// Returns the bytes of `buffer` from `start` on, which the builder has already written.
fn after(buffer: &[u8], start: usize) -> Result<&[u8], EncodeError> {
    buffer.get(start..).ok_or_else(|| incomplete_batch(buffer.len()))
}

pub(super) fn incomplete_batch(size: usize) -> EncodeError {
    EncodeError::NotABatch(BatchErrorKind::Length { length: i32::try_from(size).unwrap_or(i32::MAX) })
}

pub(super) fn write_crc(batch: &mut [u8]) {
    let crc = header::compute_crc(batch);
    if let Some(out) = batch.get_mut(CRC_AT..ATTRIBUTES_AT) {
        out.copy_from_slice(&crc.to_be_bytes());
    }
}

#[inline]
fn measure_headers<'h>(headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)>) -> (usize, usize) {
    headers.fold((0, 0), |(count, size), (key, value)| {
        let parts = VarintWord::of_len(Some(key.len())).size() + VarintWord::of_len(value.map(<[u8]>::len)).size();
        (count + 1, size + parts + key.len() + value.map_or(0, <[u8]>::len))
    })
}
