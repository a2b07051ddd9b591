//! How much room columns are given before they are filled.
use bytes::Bytes;
use samsarrow_wire::batch::{Batch, batches, record::MIN_RECORD_LEN};
use samsarrow_wire::compression::Codec;

use super::Window;
use super::walker::Walker;
use crate::layout::{Room, ValueColumn};

/// How far batches may be thought to expand because one before them did.
const LIKELY_RATIO: usize = 8;

impl<C: ValueColumn> Walker<C> {
    /// Makes room for what the headers of the batches promise, as far as their sizes make that plausible, and only
    /// for what fits until the columns are full: there may be far more data than goes into one Arrow batch. What
    /// compressed batches take is known once they are decompressed.
    pub(super) fn reserve(&mut self, data: &Bytes, window: &Window<'_>) {
        let most = self.options.max_bytes.saturating_sub(self.bytes);
        let (mut rows, mut bytes) = (0, 0);
        for batch in batches(data.clone()).map_while(Result::ok) {
            if batch.header.magic < 2 && !batch.header.is_wrapper() {
                // Those behind it are likely to be of its kind and size; to look at each would cost too much.
                let left = (data.len() - batch.position).min(most.saturating_sub(bytes));
                rows += left / batch.bytes().len();
                bytes += left;
                break;
            }
            if batch.header.codec_id() != Codec::None.id() {
                continue;
            }
            let payload = batch.payload().len();
            if bytes > 0 && bytes + payload > most {
                break;
            }
            // A negative count only reserves nothing: the walk rejects the batch.
            let promised = usize::try_from(batch.header.record_count).unwrap_or(0);
            rows += promised.min(payload / (2 * MIN_RECORD_LEN + 2));
            bytes += payload;
        }
        let rows = rows.min(window.max_rows.unwrap_or(usize::MAX));
        if rows > 0 {
            self.grow(rows, bytes.saturating_sub(rows * MIN_RECORD_LEN), 0);
        }
    }

    /// Makes room for the `size` bytes that a batch was decompressed to, and for the batches behind it in `data` if they
    /// are like it.
    pub(super) fn reserve_decompressed(&mut self, batch: &Batch, size: usize, data: &Bytes, max_rows: usize) {
        let behind = data.len().saturating_sub(batch.position + batch.bytes().len());
        let promised = usize::try_from(batch.header.record_count).unwrap_or(0);
        let all = promised.min(size / MIN_RECORD_LEN);
        let rows = all.min(max_rows);
        if rows == 0 {
            return;
        }
        let alike = size.saturating_mul(behind) / batch.bytes().len().max(1);
        // The next ones may be anything.
        self.grow(rows, size / all * rows + size % all, alike.min(behind.saturating_mul(LIKELY_RATIO)));
    }

    /// Makes room for `rows` of `bytes` together and for `ahead` bytes of rows like them, or at least for as much again as
    /// there is; for that no further than the columns may grow. Columns that double by themselves would end with up to as
    /// much again as they hold.
    fn grow(&mut self, rows: usize, bytes: usize, ahead: usize) {
        let left = self.options.max_bytes.saturating_sub(self.bytes.saturating_add(bytes));
        let ahead = ahead.max(self.bytes).min(left);
        let rows_ahead = rows.saturating_mul(ahead) / bytes.max(1);
        self.columns.reserve(Room::new(rows, rows_ahead), Room::new(bytes, ahead));
    }
}
