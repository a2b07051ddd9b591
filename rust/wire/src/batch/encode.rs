//! Building record batches.
use super::error::BatchErrorKind;
use super::header::{self, ATTRIBUTES_AT, BatchHeader, CRC_AT, HEADER_LEN, LENGTH_END, TimestampType};
use crate::compression::{Codec, CompressionError, Compressor};
use crate::varint::{size_of_varint, size_of_varlong};

/// What a batch is to hold besides its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchOptions {
    /// Offset of the first record; brokers set it themselves.
    pub base_offset: i64,
    /// -1 from clients.
    pub partition_leader_epoch: i32,
    /// -1 without idempotence.
    pub producer_id: i64,
    /// -1 without idempotence.
    pub producer_epoch: i16,
    /// -1 without idempotence.
    pub base_sequence: i32,
    /// Part of a transaction.
    pub transactional: bool,
    /// Holds markers.
    pub control: bool,
    /// A further record is refused once the batch would be larger than this, uncompressed and with its header. The
    /// first record always fits.
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

/// A batch or record that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// Kafka's lengths have 31 bits.
    #[error("a record of {size} bytes is larger than a batch can be (2 GiB)")]
    RecordTooLarge {
        /// Its size.
        size: usize,
    },
    /// The codec failed.
    #[error("cannot compress the batch: {0}")]
    Compress(#[from] CompressionError),
    /// Bytes to be patched are no batch.
    #[error("not a complete v2 batch: {0}")]
    NotABatch(BatchErrorKind),
}

/// What became of a record given to [`BatchBuilder::append`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Append {
    /// It is record number so-and-so of the batch, from 0.
    Added(i32),
    /// The batch has no room for it: finish it and append the record to the next one.
    Full,
}

/// Builds one v2 batch after the other, straight into its final bytes.
#[derive(Debug)]
pub struct BatchBuilder {
    options: BatchOptions,
    /// Header (a placeholder until the end) and records, uncompressed.
    buffer: Vec<u8>,
    count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
}

/// Most bytes in front of a key: length, attributes, two deltas and the key's length.
const MAX_FRONT: usize = 5 + 1 + 10 + 5 + 5;

impl BatchBuilder {
    /// An empty batch.
    pub fn new(options: BatchOptions) -> BatchBuilder {
        BatchBuilder { options, buffer: Vec::new(), count: 0, base_timestamp: 0, max_timestamp: -1 }
    }

    /// What the batch is to hold besides its records; may be changed until [`finish`](Self::finish).
    pub fn options_mut(&mut self) -> &mut BatchOptions {
        &mut self.options
    }

    /// Number of records.
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Whether there is no record yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the batch so far, uncompressed, its header included.
    pub fn size(&self) -> usize {
        self.buffer.len().max(HEADER_LEN)
    }

    /// The largest timestamp, -1 if there is none.
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// Adds a record, headers in their order. `timestamp` is in milliseconds since 1970, -1 for none.
    #[inline]
    pub fn append<'h>(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)> + Clone,
    ) -> Result<Append, EncodeError> {
        let base_timestamp = if self.count == 0 { timestamp } else { self.base_timestamp };
        let timestamp_delta = timestamp.wrapping_sub(base_timestamp);
        let (header_count, headers_size) = measure_headers(headers.clone());
        let body = 1
            + size_of_varlong(timestamp_delta)
            + size_of_varint(self.count)
            + size_of_field(key)
            + size_of_field(value)
            + size_of_len(header_count)
            + headers_size;
        let size = size_of_len(body) + body;
        if body > i32::MAX as usize - 2 * HEADER_LEN {
            return Err(EncodeError::RecordTooLarge { size });
        }
        let limit = self.options.max_bytes.min(i32::MAX as usize);
        if self.count > 0 && (self.buffer.len() + size > limit || self.count == i32::MAX) {
            return Ok(Append::Full);
        }
        if self.count == 0 {
            self.start(timestamp, size);
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);

        let mut front = Front::default();
        front.put(zigzag(body as i32 as i64));
        front.put(0);
        front.put(zigzag(timestamp_delta));
        front.put(zigzag(i64::from(self.count)));
        front.put(len_or_null(key));
        front.write(&mut self.buffer);
        self.buffer.extend_from_slice(key.unwrap_or_default());
        let mut middle = Front::default();
        middle.put(len_or_null(value));
        middle.write(&mut self.buffer);
        self.buffer.extend_from_slice(value.unwrap_or_default());
        if header_count == 0 {
            self.buffer.push(0);
        } else {
            self.put_headers(header_count, headers);
        }
        self.count += 1;
        Ok(Append::Added(self.count - 1))
    }

    #[cold]
    fn start(&mut self, timestamp: i64, size: usize) {
        self.base_timestamp = timestamp;
        self.max_timestamp = -1;
        self.buffer.clear();
        self.buffer.reserve(HEADER_LEN + size + MAX_FRONT);
        self.buffer.resize(HEADER_LEN, 0);
    }

    fn put_headers<'h>(&mut self, count: usize, headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)>) {
        let mut put = |raw: u64, bytes: &[u8]| {
            let mut front = Front::default();
            front.put(raw);
            front.write(&mut self.buffer);
            self.buffer.extend_from_slice(bytes);
        };
        put(zigzag(count as i64), &[]);
        for (key, value) in headers {
            put(len_or_null(Some(key)), key);
            put(len_or_null(value), value.unwrap_or_default());
        }
    }

    /// The finished batch, with its length and checksum; the builder starts anew with an empty one.
    pub fn finish(&mut self, compressor: &mut Compressor) -> Result<Vec<u8>, EncodeError> {
        if self.buffer.is_empty() {
            self.start(-1, 0);
        }
        let codec = compressor.codec();
        let mut batch = if codec == Codec::None {
            let capacity = self.buffer.len().min(self.options.max_bytes);
            std::mem::replace(&mut self.buffer, Vec::with_capacity(capacity))
        } else {
            let mut out = vec![0; HEADER_LEN];
            compressor.compress(self.buffer.get(HEADER_LEN..).unwrap_or_default(), &mut out)?;
            out
        };
        let header = self.header(codec, batch.len())?;
        if let Some(head) = batch.first_chunk_mut::<HEADER_LEN>() {
            header.write(head);
        }
        write_crc(&mut batch);
        self.buffer.clear();
        self.count = 0;
        self.max_timestamp = -1;
        Ok(batch)
    }

    fn header(&self, codec: Codec, size: usize) -> Result<BatchHeader, EncodeError> {
        let o = &self.options;
        let batch_length =
            i32::try_from(size - LENGTH_END).map_err(|_| EncodeError::RecordTooLarge { size: self.buffer.len() })?;
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

/// Sets the idempotent producer's fields of a finished batch, and its checksum, without encoding it again.
pub fn set_producer(
    batch: &mut [u8],
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
) -> Result<(), EncodeError> {
    patch(batch, |header| {
        header.producer_id = producer_id;
        header.producer_epoch = producer_epoch;
        header.base_sequence = base_sequence;
    })?;
    write_crc(batch);
    Ok(())
}

/// Sets where a finished batch begins in its partition, and the leader's epoch: what a broker does on append. Neither
/// is under the checksum.
pub fn set_base_offset(batch: &mut [u8], base_offset: i64, partition_leader_epoch: i32) -> Result<(), EncodeError> {
    patch(batch, |header| {
        header.base_offset = base_offset;
        header.partition_leader_epoch = partition_leader_epoch;
    })
}

/// Makes `timestamp` the append time of all records of a finished batch, and sets its checksum.
pub fn set_log_append_time(batch: &mut [u8], timestamp: i64) -> Result<(), EncodeError> {
    patch(batch, |header| {
        header.attributes |= header::attributes(0, TimestampType::LogAppendTime, false, false);
        header.max_timestamp = timestamp;
    })?;
    write_crc(batch);
    Ok(())
}

fn patch(batch: &mut [u8], change: impl FnOnce(&mut BatchHeader)) -> Result<(), EncodeError> {
    let mut header = BatchHeader::parse(batch).map_err(EncodeError::NotABatch)?;
    if header.magic != 2 {
        return Err(EncodeError::NotABatch(BatchErrorKind::UnknownMagic { magic: header.magic }));
    }
    if usize::try_from(header.batch_length) != Ok(batch.len() - LENGTH_END) {
        return Err(EncodeError::NotABatch(BatchErrorKind::Length { length: header.batch_length }));
    }
    change(&mut header);
    if let Some(head) = batch.first_chunk_mut::<HEADER_LEN>() {
        header.write(head);
    }
    Ok(())
}

fn write_crc(batch: &mut [u8]) {
    let crc = header::compute_crc(batch);
    if let Some(out) = batch.get_mut(CRC_AT..ATTRIBUTES_AT) {
        out.copy_from_slice(&crc.to_be_bytes());
    }
}

/// A few varints on their way into the batch: collected in registers' reach, then written in one go.
#[derive(Default)]
struct Front {
    bytes: [u8; 32],
    len: usize,
}

impl Front {
    #[inline(always)]
    fn put(&mut self, mut raw: u64) {
        while raw >= 0x80 {
            self.byte(raw as u8 | 0x80);
            raw >>= 7;
        }
        self.byte(raw as u8);
    }

    #[inline(always)]
    fn byte(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.len) {
            *slot = byte;
            self.len += 1;
        }
    }

    /// A copy of constant size and a cut are far cheaper than a copy of a few bytes.
    #[inline(always)]
    fn write(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.len;
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }
}

#[inline(always)]
fn zigzag(value: i64) -> u64 {
    (value << 1) as u64 ^ (value >> 63) as u64
}

#[inline(always)]
fn len_or_null(bytes: Option<&[u8]>) -> u64 {
    bytes.map_or(1, |b| (b.len() as u64) << 1)
}

#[inline(always)]
fn size_of_len(len: usize) -> usize {
    // A length beyond i32 is refused by the caller; here it must only not come out small.
    i32::try_from(len).map_or(5, size_of_varint)
}

#[inline(always)]
fn size_of_field(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |b| size_of_len(b.len()) + b.len())
}

#[inline]
fn measure_headers<'h>(headers: impl Iterator<Item = (&'h [u8], Option<&'h [u8]>)>) -> (usize, usize) {
    headers
        .fold((0, 0), |(count, size), (key, value)| (count + 1, size + size_of_field(Some(key)) + size_of_field(value)))
}
