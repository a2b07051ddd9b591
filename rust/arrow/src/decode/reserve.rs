//! Reservation of capacity in the columns before records are appended.
use bytes::Bytes;
use samsarrow_wire::batch::{Batch, HEADER_LEN, record::MIN_RECORD_LEN, spans};
use samsarrow_wire::compression::Codec;

use super::Window;
use super::batch_decoder::BatchDecoder;
use crate::layout::{Capacity, ValueColumn};

/// Maximum expansion ratio that is assumed for later batches. The ratio is estimated from an earlier batch.
const LIKELY_RATIO: usize = 8;

impl<C: ValueColumn> BatchDecoder<C> {
    /// Reserves capacity for the records that the batch headers claim, if the batch sizes make the claims plausible.
    /// Stops when the columns would be full, because the data may be much more than one Arrow batch can hold. Capacity
    /// for a compressed batch is reserved after decompressing it.
    pub(super) fn reserve(&mut self, data: &Bytes, window: &Window<'_>) {
        let max_bytes = self.options.max_bytes.saturating_sub(self.bytes);
        let (mut rows, mut bytes) = (0, 0);
        for batch in spans(data).map_while(Result::ok) {
            if batch.header.magic < 2 && !batch.header.is_wrapper() {
                // The following messages probably have the same format and size as this one. Parsing each would cost
                // too much.
                let left = (data.len() - batch.position).min(max_bytes.saturating_sub(bytes));
                rows += left / batch.len;
                bytes += left;
                break;
            }
            if batch.header.codec_id() != Codec::None.id() {
                continue;
            }
            let payload = batch.len.saturating_sub(HEADER_LEN);
            if bytes > 0 && bytes + payload > max_bytes {
                break;
            }
            // A negative count is treated as 0 here. Decoding rejects the batch later.
            let claimed = usize::try_from(batch.header.record_count).unwrap_or(0);
            rows += claimed.min(payload / (2 * MIN_RECORD_LEN + 2));
            bytes += payload;
        }
        let rows = rows.min(window.max_rows.unwrap_or(usize::MAX));
        if rows > 0 {
            self.grow(rows, bytes.saturating_sub(rows * MIN_RECORD_LEN), 0);
        }
    }

    /// Reserves capacity for the `size` decompressed bytes of a batch, and for the batches after it in `data`, which
    /// are assumed to be similar.
    pub(super) fn reserve_decompressed(&mut self, batch: &Batch, size: usize, data: &Bytes, max_rows: usize) {
        let remaining = data.len().saturating_sub(batch.position + batch.bytes().len());
        let claimed = usize::try_from(batch.header.record_count).unwrap_or(0);
        let all = claimed.min(size / MIN_RECORD_LEN);
        let rows = all.min(max_rows);
        if rows == 0 {
            return;
        }
        let estimate = size.saturating_mul(remaining) / batch.bytes().len().max(1);
        // The later batches may be completely different, so the estimate is limited.
        self.grow(rows, size / all * rows + size % all, estimate.min(remaining.saturating_mul(LIKELY_RATIO)));
    }

    /// Reserves capacity for `rows` rows with `bytes` bytes in total. Also reserves capacity for similar rows that take
    /// `ahead` more bytes, or as many bytes as the columns already contain if that is more, up to the maximum size of
    /// the columns. Without this, columns would grow by doubling, and up to half of their capacity would be unused.
    fn grow(&mut self, rows: usize, bytes: usize, ahead: usize) {
        let left = self.options.max_bytes.saturating_sub(self.bytes.saturating_add(bytes));
        let ahead = ahead.max(self.bytes).min(left);
        let rows_ahead = rows.saturating_mul(ahead) / bytes.max(1);
        self.columns.reserve(Capacity::new(rows, rows_ahead), Capacity::new(bytes, ahead));
    }
}
