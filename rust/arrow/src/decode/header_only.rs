//! Rows created from batch headers only, without decompressing and parsing the records.
use bytes::Bytes;
use samsarrow_wire::batch::{Batch, record::MIN_RECORD_LEN};
use samsarrow_wire::compression::Codec;

use super::DecodeCause;
use super::batch_decoder::{BatchDecoder, Done, Stop};
use super::columns::{Cut, TopicPartition};
use crate::layout::ValueColumn;

impl<C: ValueColumn> BatchDecoder<C> {
    /// Returns true if the rows can be built from the header. If the header claims more records than the batch can
    /// contain, returns false, so that decoding reports the error.
    pub(super) fn is_header_only(&self, batch: &Batch, codec: Codec) -> bool {
        let bytes = batch.records().len();
        let max_bytes = if codec == Codec::None { bytes } else { self.options.limits().cap(bytes) };
        self.columns.header_determines(&batch.header) && min_records_size(batch) <= max_bytes
    }

    /// Appends rows with values from the header.
    pub(super) fn append_header_only(
        &mut self,
        batch: &Batch,
        topic_partition: Option<TopicPartition>,
        cut: Cut,
        data: &Bytes,
    ) -> Result<Done, DecodeCause> {
        let bytes = min_records_size(batch);
        if !self.fits(bytes)? {
            return Ok(Done::full());
        }
        self.reserve_decompressed(batch, bytes, data, cut.max_rows);
        let stopped = self.columns.append_header(&batch.header, topic_partition, cut);
        self.bytes += bytes;
        Ok(Done {
            next_offset: batch.header.next_offset(),
            end: batch.position + batch.bytes().len(),
            stopped: stopped.map(|next_offset| Stop::RowLimit { next_offset }),
        })
    }
}

/// Returns the minimum size in bytes of all records that the header claims.
fn min_records_size(batch: &Batch) -> usize {
    // A negative count is treated as 0 here.
    usize::try_from(batch.header.record_count).unwrap_or_default().saturating_mul(MIN_RECORD_LEN)
}
