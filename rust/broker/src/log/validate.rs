//! Validation of produced batches by Kafka's rules.

use bytes::Bytes;
use samsarrow_wire::batch::{BatchHeader, HEADER_LEN, TimestampType};
use samsarrow_wire::crc::crc32c;
use samsarrow_wire::error_code::ErrorCode;

use super::{batch, legacy};

/// Error code and message for a rejected batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

pub(super) fn reject<T>(code: ErrorCode, message: impl Into<String>) -> Result<T, Rejection> {
    Err(Rejection { code, message: message.into() })
}

const CHECKSUM_AT: usize = 17;
const CHECKSUMMED_FROM: usize = 21;

fn stored_checksum(batch: &[u8]) -> Option<u32> {
    let bytes = batch.get(CHECKSUM_AT..CHECKSUMMED_FROM)?;
    bytes.try_into().ok().map(u32::from_be_bytes)
}

const FIRST_WITH_BATCHES: i16 = 3;
const ZSTD: i16 = 4;
const LAST_CODEC: i16 = 4;

/// Validated records of one partition in a Produce request.
#[derive(Debug)]
pub(crate) enum ValidatedRecords {
    /// One record batch.
    Batch(Box<BatchHeader>),
    /// Messages of format v0 or v1.
    Messages(Vec<legacy::Entry>),
}

/// Validates the records of one partition in a Produce request.
pub(crate) fn validate_records(data: &Bytes, version: i16, max_bytes: usize) -> Result<ValidatedRecords, Rejection> {
    match batch::magic(data) {
        None => reject(ErrorCode::INVALID_RECORD, "the partition has no record batch"),
        Some(_) if version < FIRST_WITH_BATCHES => legacy::validate(data, max_bytes).map(ValidatedRecords::Messages),
        Some(2) => check_batch(data, version, max_bytes).map(|header| ValidatedRecords::Batch(Box::new(header))),
        Some(magic) => reject(
            ErrorCode::INVALID_RECORD,
            format!("records of magic {magic} are not taken by Produce v{version}, only those of magic 2"),
        ),
    }
}

/// Validates that `data` is exactly one record batch.
fn check_batch(data: &[u8], version: i16, max_bytes: usize) -> Result<BatchHeader, Rejection> {
    let size = match batch::size(data) {
        Some(size) if size >= HEADER_LEN => size,
        _ => return reject(ErrorCode::CORRUPT_MESSAGE, "the length of the record batch is less than its header"),
    };
    if size > data.len() {
        return reject(ErrorCode::INVALID_RECORD, "the record batch is cut off");
    }
    if size < data.len() {
        return reject(ErrorCode::INVALID_RECORD, "a partition takes exactly one record batch in a request");
    }
    if size > max_bytes {
        return reject(
            ErrorCode::MESSAGE_TOO_LARGE,
            format!("the record batch of {size} bytes exceeds the limit of {max_bytes} (max.message.bytes)"),
        );
    }
    if data.get(CHECKSUMMED_FROM..).map(crc32c) != stored_checksum(data) {
        return reject(ErrorCode::CORRUPT_MESSAGE, "the record batch does not match its checksum");
    }
    let header = match BatchHeader::parse(data) {
        Ok(header) => header,
        Err(error) => return reject(ErrorCode::INVALID_RECORD, error.to_string()),
    };
    check_fields(&header, version).map(|()| header)
}

fn check_fields(header: &BatchHeader, version: i16) -> Result<(), Rejection> {
    if header.record_count <= 0 || header.last_offset_delta < 0 {
        return reject(ErrorCode::INVALID_RECORD, format!("the record batch claims {} records", header.record_count));
    }
    if header.last_offset_delta != header.record_count - 1 {
        return reject(
            ErrorCode::INVALID_RECORD,
            format!("{} records do not fit a last offset delta of {}", header.record_count, header.last_offset_delta),
        );
    }
    if header.base_offset != 0 {
        return reject(ErrorCode::INVALID_RECORD, format!("the base offset is {}, not 0", header.base_offset));
    }
    if header.is_control() {
        return reject(ErrorCode::INVALID_RECORD, "clients may not write control batches");
    }
    if header.is_transactional() && header.producer_id < 0 {
        return reject(ErrorCode::INVALID_RECORD, "a record batch of a transaction has no producer id");
    }
    if header.codec_id() > LAST_CODEC || (header.codec_id() == ZSTD && version < 7) {
        return reject(
            ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
            format!("compression codec {} is not taken by Produce v{version}", header.codec_id()),
        );
    }
    if header.timestamp_type() == TimestampType::LogAppendTime {
        return reject(ErrorCode::INVALID_TIMESTAMP, "only the broker may set the timestamp type LogAppendTime");
    }
    if header.producer_id >= 0 && (header.base_sequence < 0 || header.producer_epoch < 0) {
        return reject(
            ErrorCode::INVALID_RECORD,
            format!(
                "producer {} sent epoch {} and sequence {}",
                header.producer_id, header.producer_epoch, header.base_sequence
            ),
        );
    }
    Ok(())
}
