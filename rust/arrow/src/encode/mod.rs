//! Encoder of Arrow columns to record batches.
mod bytes;
mod equal_length_rows;
mod error;
mod headers;
mod rows;
mod run;

use arrow_array::RecordBatch;
use samsarrow_wire::batch::{self, Append, BatchBuilder, BatchOptions, LegacyBuilder, LegacyOptions};
use samsarrow_wire::compression::{Codec, Compressor};

pub(crate) use self::bytes::BytesColumn;
pub use self::bytes::is_bytes;
pub use self::error::EncodeError;
pub(crate) use self::error::{check_unique, no_such_column, wrong_type};
pub use self::headers::HeaderRow;
pub(crate) use self::headers::HeadersReader;
pub use self::rows::{Columns, RowReader};

/// Options of [`encode_batches`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodeOptions {
    /// The codec of the batches.
    pub codec: Codec,
    /// The compression level; `None` selects the codec's default.
    pub level: Option<i32>,
    /// The record format: 2 for record batches, 1 for the messages of Kafka 0.10, 0 for the messages of older versions.
    pub magic: i8,
    /// Offset of the first record.
    pub base_offset: i64,
    /// Maximum uncompressed size of a batch in bytes. A larger record gets a batch of its own.
    pub batch_size: usize,
    /// Timestamp of rows without a timestamp, in milliseconds since 1970; -1 writes them without a timestamp.
    pub default_timestamp: i64,
    /// -1 for none.
    pub partition_leader_epoch: i32,
    /// -1 without idempotence.
    pub producer_id: i64,
    /// -1 without idempotence.
    pub producer_epoch: i16,
    /// Sequence number of the first record; -1 without idempotence. Later batches continue the sequence.
    pub base_sequence: i32,
    /// Sets the transactional flag of the batches.
    pub transactional: bool,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        EncodeOptions {
            codec: Codec::None,
            level: None,
            magic: 2,
            base_offset: 0,
            batch_size: 1024 * 1024,
            default_timestamp: -1,
            partition_leader_epoch: -1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            transactional: false,
        }
    }
}

/// Encodes all rows as consecutive batches of one partition. A partition column is ignored.
pub fn encode_batches(data: &RecordBatch, columns: &Columns, options: &EncodeOptions) -> Result<Vec<u8>, EncodeError> {
    let rows = RowReader::new(data, columns)?;
    let mut compressor = Compressor::new(options.codec, options.level).map_err(batch::EncodeError::from)?;
    match options.magic {
        2 => {}
        0 | 1 => return encode_messages(&rows, &mut compressor, options),
        magic => return Err(EncodeError::Magic { magic }),
    }
    let mut builder = BatchBuilder::new(BatchOptions {
        base_offset: options.base_offset,
        partition_leader_epoch: options.partition_leader_epoch,
        producer_id: options.producer_id,
        producer_epoch: options.producer_epoch,
        base_sequence: options.base_sequence,
        transactional: options.transactional,
        control: false,
        max_bytes: options.batch_size,
    });
    let total = rows.rows();
    let known = rows.record_bytes().filter(|_| options.codec == Codec::None);
    builder.reserve(known.unwrap_or(0).min(MAX_RESERVED));
    let mut row = rows.append_run(&mut builder, 0..total, options.default_timestamp)?;
    if known.is_none() && (1..total).contains(&row) {
        // Estimate the size of the remaining rows from the size of the first batch.
        builder.reserve((builder.size() / row + 1).saturating_mul(total - row).min(MAX_RESERVED));
    }
    while row < total {
        close(&mut builder, &mut compressor)?;
        row += rows.append_run(&mut builder, row..total, options.default_timestamp)?;
    }
    if total == 0 {
        return Ok(Vec::new());
    }
    Ok(builder.finish(&mut compressor)?)
}

/// Encodes all rows as messages in format v0 or v1.
fn encode_messages(
    rows: &RowReader,
    compressor: &mut Compressor,
    options: &EncodeOptions,
) -> Result<Vec<u8>, EncodeError> {
    let magic = options.magic;
    let lacks = |what| Err(EncodeError::OldFormat { magic, what });
    if options.transactional {
        return lacks("transactions");
    }
    if options.producer_id >= 0 {
        return lacks("idempotent producers");
    }
    if options.partition_leader_epoch >= 0 {
        return lacks("leader epochs");
    }
    let legacy = LegacyOptions { magic, base_offset: options.base_offset, max_bytes: options.batch_size };
    let mut builder = LegacyBuilder::new(legacy)?;
    let mut out = Vec::new();
    for row in 0..rows.rows() {
        if rows.append_to_legacy(&mut builder, row, options.default_timestamp)? == Append::Full {
            let count = builder.count();
            out.extend_from_slice(&builder.finish(compressor)?);
            builder.options_mut().base_offset += i64::from(count);
            rows.append_to_legacy(&mut builder, row, options.default_timestamp)?;
        }
    }
    out.extend_from_slice(&builder.finish(compressor)?);
    Ok(out)
}

/// Maximum capacity in bytes that is reserved based on an estimate.
const MAX_RESERVED: usize = 64 * 1024 * 1024;

fn close(builder: &mut BatchBuilder, compressor: &mut Compressor) -> Result<(), EncodeError> {
    let count = builder.count();
    builder.close(compressor)?;
    let options = builder.options_mut();
    options.base_offset += i64::from(count);
    if options.base_sequence >= 0 {
        // After the maximum, sequence numbers continue at 0.
        options.base_sequence = options.base_sequence.wrapping_add(count) & i32::MAX;
    }
    Ok(())
}
