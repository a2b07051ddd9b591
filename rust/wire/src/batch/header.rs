//! Header of a record batch, and its equivalent for messages of formats v0 and v1.
use super::error::BatchErrorKind;
use crate::crc::{crc32, crc32c};

/// Length of a batch header, which is all bytes before the first record.
pub const HEADER_LEN: usize = 61;
/// Length of the prefix that ends with the length field. The length field counts the bytes after this prefix.
pub(crate) const LENGTH_END: usize = 12;
pub(crate) const MAGIC_AT: usize = 16;
/// Smallest valid length field of a v2 batch.
pub(crate) const MIN_LENGTH: i32 = (HEADER_LEN - LENGTH_END) as i32;
/// Smallest valid length field of a message of any format; v0 messages are the shortest.
pub(crate) const MIN_LEGACY_LENGTH: i32 = 14;
/// Smallest valid length field of a v1 message.
pub(crate) const MIN_V1_LENGTH: i32 = 22;
/// Length of a v0 message from its offset through its key length field.
pub(crate) const V0_FIXED_LEN: usize = 18;
/// Length of a v1 message from its offset through its key length field. It is 8 bytes more than in v0, because v1 adds
/// a timestamp.
pub(crate) const V1_FIXED_LEN: usize = 26;
/// End of the checksum field of a v0 or v1 message. The checksum covers the bytes after it.
pub(crate) const LEGACY_CRC_END: usize = MAGIC_AT;
pub(crate) const LEGACY_ATTRIBUTES_AT: usize = 17;
pub(crate) const CRC_AT: usize = 17;
/// Start of the bytes covered by the checksum of a v2 batch.
pub(crate) const ATTRIBUTES_AT: usize = 21;

const TIMESTAMP_TYPE_BIT: i16 = 0x08;
const TRANSACTIONAL_BIT: i16 = 0x10;
const CONTROL_BIT: i16 = 0x20;
const DELETE_HORIZON_BIT: i16 = 0x40;
pub(crate) const CODEC_BITS: i16 = 0x07;

/// Source of the timestamps of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// Set by the producer.
    CreateTime,
    /// Set by the broker when it appended the batch.
    LogAppendTime,
}

impl TimestampType {
    /// Returns Kafka's numeric id of the timestamp type.
    pub fn id(self) -> i8 {
        match self {
            TimestampType::CreateTime => 0,
            TimestampType::LogAppendTime => 1,
        }
    }
}

/// The header of a batch, with Kafka's field names.
///
/// For a message of format v0 or v1, the header is derived from the message: the base offset is the message's offset,
/// the last offset delta is 0, and epoch, producer and sequence are -1. A compressed message is a wrapper of other
/// messages (see [`is_wrapper`](Self::is_wrapper)). The wrapper's offset equals the absolute offset of its last
/// message, so that [`next_offset`](Self::next_offset) is correct for all formats. The offset of its first message and
/// the number of messages are only known after decompression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record when the batch was written.
    pub base_offset: i64,
    /// Length of the batch after the length field.
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch, or -1 before the append.
    pub partition_leader_epoch: i32,
    /// The format: 2, or 0 and 1 for the formats before Kafka 0.11.
    pub magic: i8,
    /// Checksum. In v2 it is the CRC-32C of the bytes from the attributes on; in v0 and v1 it is the CRC-32 (IEEE) of
    /// the bytes from the magic on.
    pub crc: u32,
    /// Codec, timestamp type and flags.
    pub attributes: i16,
    /// Offset of the last record when the batch was written, minus the base offset.
    pub last_offset_delta: i32,
    /// Timestamp to which the records' timestamp deltas are added.
    pub base_timestamp: i64,
    /// The maximum timestamp of the records, or the append time if the broker sets timestamps.
    pub max_timestamp: i64,
    /// -1 without idempotence.
    pub producer_id: i64,
    /// -1 without idempotence.
    pub producer_epoch: i16,
    /// Sequence number of the first record, -1 without idempotence.
    pub base_sequence: i32,
    /// Number of records remaining in the batch, or -1 for a wrapper, because a wrapper's header has no count.
    pub record_count: i32,
}

impl BatchHeader {
    /// Parses the header at the start of `bytes`, of any format. Does not validate the magic and the length.
    pub fn parse(bytes: &[u8]) -> Result<BatchHeader, BatchErrorKind> {
        if let Some(&magic @ (0 | 1)) = bytes.get(MAGIC_AT) {
            return BatchHeader::parse_legacy(bytes, magic as i8);
        }
        let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(BatchErrorKind::Length { length: bytes.len() as i32 - LENGTH_END as i32 });
        };
        let header = BatchHeader {
            base_offset: i64::from_be_bytes(field(head, 0)),
            batch_length: i32::from_be_bytes(field(head, 8)),
            partition_leader_epoch: i32::from_be_bytes(field(head, 12)),
            magic: i8::from_be_bytes(field(head, MAGIC_AT)),
            crc: u32::from_be_bytes(field(head, CRC_AT)),
            attributes: i16::from_be_bytes(field(head, ATTRIBUTES_AT)),
            last_offset_delta: i32::from_be_bytes(field(head, 23)),
            base_timestamp: i64::from_be_bytes(field(head, 27)),
            max_timestamp: i64::from_be_bytes(field(head, 35)),
            producer_id: i64::from_be_bytes(field(head, 43)),
            producer_epoch: i16::from_be_bytes(field(head, 51)),
            base_sequence: i32::from_be_bytes(field(head, 53)),
            record_count: i32::from_be_bytes(field(head, 57)),
        };
        let last = header.last_offset_delta;
        if last < 0 || header.base_offset.checked_add(i64::from(last) + 1).is_none() {
            return Err(BatchErrorKind::Offsets { last_offset_delta: last });
        }
        Ok(header)
    }

    fn parse_legacy(bytes: &[u8], magic: i8) -> Result<BatchHeader, BatchErrorKind> {
        let short = || BatchErrorKind::Length { length: bytes.len() as i32 - LENGTH_END as i32 };
        let head = bytes.first_chunk::<V0_FIXED_LEN>().ok_or_else(short)?;
        let mut attributes = i16::from(head[LEGACY_ATTRIBUTES_AT]) & CODEC_BITS;
        let mut timestamp = -1;
        if magic == 1 {
            attributes |= i16::from(head[LEGACY_ATTRIBUTES_AT]) & TIMESTAMP_TYPE_BIT;
            let head = bytes.first_chunk::<V1_FIXED_LEN>().ok_or_else(short)?;
            timestamp = i64::from_be_bytes(field(head, 18));
        }
        let base_offset = i64::from_be_bytes(field(head, 0));
        if base_offset == i64::MAX {
            // Reject a batch at the largest possible offset. It has no next offset, so a reader would fetch it forever.
            return Err(BatchErrorKind::Offsets { last_offset_delta: 0 });
        }
        Ok(BatchHeader {
            base_offset,
            batch_length: i32::from_be_bytes(field(head, 8)),
            partition_leader_epoch: -1,
            magic,
            crc: u32::from_be_bytes(field(head, 12)),
            attributes,
            last_offset_delta: 0,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: if attributes & CODEC_BITS == 0 { 1 } else { -1 },
        })
    }

    /// Writes the header over the first [`HEADER_LEN`] bytes of `out`.
    pub(crate) fn write(&self, out: &mut [u8; HEADER_LEN]) {
        put(out, 0, self.base_offset.to_be_bytes());
        put(out, 8, self.batch_length.to_be_bytes());
        put(out, 12, self.partition_leader_epoch.to_be_bytes());
        put(out, MAGIC_AT, self.magic.to_be_bytes());
        put(out, CRC_AT, self.crc.to_be_bytes());
        put(out, ATTRIBUTES_AT, self.attributes.to_be_bytes());
        put(out, 23, self.last_offset_delta.to_be_bytes());
        put(out, 27, self.base_timestamp.to_be_bytes());
        put(out, 35, self.max_timestamp.to_be_bytes());
        put(out, 43, self.producer_id.to_be_bytes());
        put(out, 51, self.producer_epoch.to_be_bytes());
        put(out, 53, self.base_sequence.to_be_bytes());
        put(out, 57, self.record_count.to_be_bytes());
    }

    /// Returns the offset after this batch. It is computed from the header instead of the last record, because
    /// compaction may have removed the last records of the batch, and a client that used the last remaining record
    /// would fetch the same batch forever.
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// Returns the offset of the last record when the batch was written.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// Returns true for a compressed v0 or v1 message, which contains other messages.
    pub fn is_wrapper(&self) -> bool {
        self.magic < 2 && self.codec_id() != 0
    }

    /// Returns the codec bits of the attributes.
    pub fn codec_id(&self) -> i16 {
        self.attributes & CODEC_BITS
    }

    /// Returns the source of the timestamps.
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & TIMESTAMP_TYPE_BIT == 0 { TimestampType::CreateTime } else { TimestampType::LogAppendTime }
    }

    /// Returns true if the batch is part of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Returns true if the batch has control records instead of user records.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// Returns true if the base timestamp is the time after which compaction may delete tombstones and markers.
    pub fn has_delete_horizon(&self) -> bool {
        self.attributes & DELETE_HORIZON_BIT != 0
    }
}

/// Returns the attribute bits for a new batch.
pub(crate) fn attributes(codec_id: i16, timestamp_type: TimestampType, transactional: bool, control: bool) -> i16 {
    let mut bits = codec_id & CODEC_BITS;
    if timestamp_type == TimestampType::LogAppendTime {
        bits |= TIMESTAMP_TYPE_BIT;
    }
    if transactional {
        bits |= TRANSACTIONAL_BIT;
    }
    if control {
        bits |= CONTROL_BIT;
    }
    bits
}

pub(crate) fn offset_and_length(prefix: &[u8; LENGTH_END]) -> (i64, i32) {
    let [o0, o1, o2, o3, o4, o5, o6, o7, l0, l1, l2, l3] = *prefix;
    (i64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]), i32::from_be_bytes([l0, l1, l2, l3]))
}

/// Computes the checksum of `batch`, which may have any format. Returns 0 if `batch` is shorter than a header.
pub(crate) fn compute_crc(batch: &[u8]) -> u32 {
    match batch.get(MAGIC_AT) {
        Some(0 | 1) => batch.get(LEGACY_CRC_END..).map_or(0, crc32),
        _ => batch.get(ATTRIBUTES_AT..).map_or(0, crc32c),
    }
}

fn field<const N: usize, const HEAD: usize>(head: &[u8; HEAD], at: usize) -> [u8; N] {
    let mut out = [0; N];
    // The offsets are constants within a fixed-size array, so the range is always valid.
    if let Some(bytes) = head.get(at..at + N) {
        out.copy_from_slice(bytes);
    }
    out
}

fn put<const N: usize>(head: &mut [u8; HEADER_LEN], at: usize, bytes: [u8; N]) {
    if let Some(out) = head.get_mut(at..at + N) {
        out.copy_from_slice(&bytes);
    }
}
