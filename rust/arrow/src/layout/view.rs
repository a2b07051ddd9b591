//! Values as views into the fetched or decompressed bytes.
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryViewArray};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

use super::{Layout, Nulls, NullsAmong, Origin, ValueColumn, nulls_among};

/// Values up to this length lie in the view itself.
const MAX_INLINE: i32 = 12;

/// See [`Layout::View`]. While all rows are null, they are only counted: most topics have no keys.
#[derive(Debug, Default)]
pub(crate) struct ViewColumn {
    leading_nulls: usize,
    /// None while all rows are null.
    views: Vec<u128>,
    nulls: Nulls,
    rows_hint: usize,
}

impl ViewColumn {
    #[cold]
    #[inline(never)]
    fn materialise(&mut self) {
        let rows = std::mem::take(&mut self.leading_nulls);
        self.views.reserve(rows.max(self.rows_hint));
        self.views.resize(rows, 0);
        if rows > 0 {
            self.nulls.push_nulls(0, rows);
        }
    }

    fn push_nulls(&mut self, count: usize) {
        if self.views.is_empty() {
            self.leading_nulls += count;
            return;
        }
        let rows = self.views.len();
        self.nulls.push_nulls(rows, count);
        self.views.resize(rows + count, 0);
    }

    /// Appends values none of which is null.
    fn push_values(&mut self, data: &[u8], origin: Origin, starts: &[u32], lens: &[i32]) {
        if self.views.is_empty() {
            self.materialise();
        }
        let spans = starts.iter().zip(lens);
        // The walk has seen to it; `array` relies on it.
        let reach = spans.clone().fold(0, |reach, (&start, &len)| reach.max(start.wrapping_add(len as u32)));
        if reach as usize > data.len() {
            debug_assert!(false, "values beyond the data");
            self.views.resize(self.views.len() + lens.len(), 0);
        } else {
            self.views.extend(spans.map(|(&start, &len)| view(data, origin, start, len)));
        }
        self.nulls.push_valid(lens.len());
    }
}

impl ValueColumn for ViewColumn {
    const LAYOUT: Layout = Layout::View;

    fn reserve(&mut self, rows: usize, _: usize) {
        if self.views.is_empty() {
            self.rows_hint = rows;
        } else {
            self.views.reserve(rows);
        }
    }

    fn push_block(&mut self, data: &[u8], origin: Origin, starts: &[u32], lens: &[i32]) {
        match nulls_among(lens) {
            NullsAmong::None => self.push_values(data, origin, starts, lens),
            NullsAmong::All => self.push_nulls(lens.len()),
            NullsAmong::Some => {
                for (start, len) in starts.chunks(1).zip(lens.chunks(1)) {
                    match len {
                        [..=-1] => self.push_nulls(1),
                        _ => self.push_values(data, origin, start, len),
                    }
                }
            }
        }
    }

    fn truncate(&mut self, rows: usize) {
        if self.views.is_empty() {
            self.leading_nulls = rows;
            return;
        }
        self.views.truncate(rows);
        self.nulls.truncate(rows);
    }

    fn finish(&mut self, buffers: &[Buffer]) -> Result<ArrayRef, ArrowError> {
        let column = std::mem::take(self);
        if column.views.is_empty() {
            return Ok(Arc::new(BinaryViewArray::new_null(column.leading_nulls)));
        }
        let mut nulls = column.nulls;
        Ok(Arc::new(array(ScalarBuffer::from(column.views), buffers, nulls.finish())?))
    }
}

/// Arrow's own check of each view takes 15 to 25 % of the time to decode small records (ADR 12). Builds with debug
/// assertions, and so all tests, make it.
#[allow(unsafe_code, reason = "measured: see above and ADR 12")]
fn array(
    views: ScalarBuffer<u128>,
    buffers: &[Buffer],
    nulls: Option<NullBuffer>,
) -> Result<BinaryViewArray, ArrowError> {
    if cfg!(debug_assertions) {
        return BinaryViewArray::try_new(views, buffers.to_vec(), nulls);
    }
    // SAFETY: each view was made by `view` from a start and a length that `push_values` found to lie within `data`,
    // which is the stretch from `origin.start` on of the registered buffer `origin.buffer`. Longer values than
    // `MAX_INLINE` have their first four bytes as prefix, shorter ones lie in the view with zeroes behind them.
    Ok(unsafe { BinaryViewArray::new_unchecked(views, Arc::from(buffers), nulls) })
}

#[inline(always)]
fn view(data: &[u8], origin: Origin, start: u32, len: i32) -> u128 {
    let at = start as usize;
    if len <= MAX_INLINE {
        return inline_view(data, at, len as u32);
    }
    let prefix = data.get(at..).and_then(<[u8]>::first_chunk::<4>).map_or(0, |p| u32::from_le_bytes(*p));
    // Buffers are cut so that positions stay below 2 GiB.
    let offset = origin.start + start;
    u128::from(len as u32) | u128::from(prefix) << 32 | u128::from(origin.buffer) << 64 | u128::from(offset) << 96
}

#[inline(always)]
fn inline_view(data: &[u8], start: usize, len: u32) -> u128 {
    // One wide load and a mask; only within the last bytes of the data a copy.
    let bytes = match data.get(start..).and_then(<[u8]>::first_chunk::<16>) {
        Some(chunk) => u128::from_le_bytes(*chunk) << 32,
        None => {
            let mut chunk = [0; 16];
            let value = data.get(start..start + len as usize).unwrap_or_default();
            if let Some(head) = chunk.get_mut(..value.len()) {
                head.copy_from_slice(value);
            }
            u128::from_le_bytes(chunk) << 32
        }
    };
    u128::from(len) | bytes & INLINE_MASKS[len as usize & 15]
}

/// For each length the bits of a view that hold the value.
const INLINE_MASKS: [u128; 16] = {
    let mut masks = [0; 16];
    let mut len = 0;
    while len <= MAX_INLINE as usize {
        masks[len] = ((1 << (8 * len)) - 1) << 32;
        len += 1;
    }
    masks
};
