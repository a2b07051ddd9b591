//! In-place changes of encoded batches.
use super::encode::{EncodeError, incomplete_batch, write_crc};
use super::error::BatchErrorKind;
use super::header::{
    self, BatchHeader, HEADER_LEN, LEGACY_ATTRIBUTES_AT, LENGTH_END, MAGIC_AT, TimestampType, V0_FIXED_LEN,
};
use super::legacy;

/// Sets the fields of an idempotent producer in an encoded batch, and updates the checksum, without encoding it again.
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

/// Sets the base offset and the leader epoch of an encoded batch, as a broker does on append. The checksum stays valid,
/// because it covers neither field. A message of magic 0 or 1 has no epoch. For a wrapper, `base_offset` must be the
/// offset of its last message.
pub fn set_base_offset(batch: &mut [u8], base_offset: i64, partition_leader_epoch: i32) -> Result<(), EncodeError> {
    if let Some(message) = legacy_message(batch)? {
        put(message, 0, base_offset.to_be_bytes());
        return Ok(());
    }
    patch(batch, |header| {
        header.base_offset = base_offset;
        header.partition_leader_epoch = partition_leader_epoch;
    })
}

/// Sets `timestamp` as the append time of all records of an encoded batch, and updates the checksum. A message of magic
/// 0 has no timestamp and is not changed.
pub fn set_log_append_time(batch: &mut [u8], timestamp: i64) -> Result<(), EncodeError> {
    if let Some(message) = legacy_message(batch)? {
        if let Some(1) = message.get(MAGIC_AT) {
            if let Some(attributes) = message.get_mut(LEGACY_ATTRIBUTES_AT) {
                *attributes |= header::attributes(0, TimestampType::LogAppendTime, false, false) as u8;
            }
            put(message, V0_FIXED_LEN, timestamp.to_be_bytes());
            legacy::write_crc(message);
        }
        return Ok(());
    }
    patch(batch, |header| {
        header.attributes |= header::attributes(0, TimestampType::LogAppendTime, false, false);
        header.max_timestamp = timestamp;
    })?;
    write_crc(batch);
    Ok(())
}

/// Returns the bytes if they are a complete message of magic 0 or 1, or `None` if they have another magic.
fn legacy_message(batch: &mut [u8]) -> Result<Option<&mut [u8]>, EncodeError> {
    if !matches!(batch.get(MAGIC_AT), Some(0 | 1)) {
        return Ok(None);
    }
    let length = BatchHeader::parse(batch).map_err(EncodeError::NotABatch)?.batch_length;
    if usize::try_from(length) != Ok(batch.len() - LENGTH_END) {
        return Err(EncodeError::NotABatch(BatchErrorKind::Length { length }));
    }
    Ok(Some(batch))
}

fn put<const N: usize>(message: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(out) = message.get_mut(at..at + N) {
        out.copy_from_slice(&bytes);
    }
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
    let size = batch.len();
    header.write(batch.first_chunk_mut::<HEADER_LEN>().ok_or_else(|| incomplete_batch(size))?);
    Ok(())
}
