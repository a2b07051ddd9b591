//! Column whose values are views into the fetched or decompressed bytes.
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryViewArray};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use samsarrow_wire::batch::RecordError;

use super::{Capacity, Layout, Nulls, NullsAmong, Origin, ValueColumn, nulls_among, out_of_bounds};

/// Maximum length of a value stored in the view itself.
const MAX_INLINE: i32 = 12;

/// Builder for [`Layout::View`]. While all rows are null, only their number is stored, because most topics have no
/// keys.
#[derive(Debug, Default)]
pub(crate) struct ViewColumn {
    leading_nulls: usize,
    /// One view per row; empty while all rows are null.
    views: Vec<u128>,
    /// Largest end of all views into each buffer; 0 or missing if no view points into the buffer.
    reaches: Vec<usize>,
    nulls: Nulls,
    rows_hint: Capacity,
}

impl ViewColumn {
    #[cold]
    #[inline(never)]
    fn materialise(&mut self) {
        let rows = std::mem::take(&mut self.leading_nulls);
        self.views.resize(rows, 0);
        self.rows_hint.reserve_in(&mut self.views);
        if rows > 0 {
            self.nulls.push_nulls(0, rows);
        }
    }

    /// Appends values without nulls.
    fn push_values(&mut self, data: &[u8], origin: Origin, starts: &[u32], lens: &[i32]) -> Result<(), RecordError> {
        if self.views.is_empty() {
            self.materialise();
        }
        let spans = starts.iter().zip(lens);
        let (reach, pointed) = spans.clone().fold((0, 0), |(reach, pointed), (&start, &len)| {
            let end = start.saturating_add(len as u32);
            (reach.max(end), pointed.max(if len > MAX_INLINE { end } else { 0 }))
        });
        if reach as usize > data.len() {
            return Err(out_of_bounds(data));
        }
        self.reach(origin, pointed);
        self.views.extend(spans.map(|(&start, &len)| view(data, origin, start, len)));
        self.nulls.push_valid(lens.len());
        Ok(())
    }

    /// Notes that views point into the buffer of `origin`, up to `end` bytes after its start.
    #[inline]
    fn reach(&mut self, origin: Origin, end: u32) {
        let buffer = origin.buffer as usize;
        if end == 0 {
            return;
        }
        if buffer >= self.reaches.len() {
            self.reaches.resize(buffer + 1, 0);
        }
        if let Some(reach) = self.reaches.get_mut(buffer) {
            *reach = (*reach).max(origin.start as usize + end as usize);
        }
    }
}

impl ValueColumn for ViewColumn {
    const LAYOUT: Layout = Layout::View;

    fn reserve(&mut self, rows: Capacity, _: Capacity) {
        if self.views.is_empty() {
            self.rows_hint = rows;
        } else {
            rows.reserve_in(&mut self.views);
        }
    }

    fn push_block(&mut self, data: &[u8], origin: Origin, starts: &[u32], lens: &[i32]) -> Result<(), RecordError> {
        match nulls_among(lens) {
            NullsAmong::None => self.push_values(data, origin, starts, lens)?,
            NullsAmong::All => self.push_nulls(lens.len()),
            NullsAmong::Some => {
                for (start, len) in starts.chunks(1).zip(lens.chunks(1)) {
                    match len {
                        [..=-1] => self.push_nulls(1),
                        _ => self.push_values(data, origin, start, len)?,
                    }
                }
            }
        }
        Ok(())
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
        let buffers = pointed_into(&column.reaches, buffers)?;
        let mut nulls = column.nulls;
        Ok(Arc::new(array(ScalarBuffer::from(column.views), buffers, nulls.finish())?))
    }
}

/// Returns the buffers that views point into, after checking that they are long enough. A buffer without views is
/// replaced by an empty one, so that short values do not keep the fetched bytes in memory.
fn pointed_into(reaches: &[usize], buffers: &[Buffer]) -> Result<Arc<[Buffer]>, ArrowError> {
    let buffer = |(index, &reach): (usize, &usize)| match buffers.get(index) {
        _ if reach == 0 => Ok(Buffer::default()),
        Some(buffer) if reach <= buffer.len() => Ok(buffer.clone()),
        other => {
            let len = other.map_or(0, Buffer::len);
            Err(ArrowError::ComputeError(format!("views point to byte {reach} of buffer {index}, which has {len}")))
        }
    };
    reaches.iter().enumerate().map(buffer).collect()
}

/// Creates the array without Arrow's check of each view, which takes 15 to 25 % of the time to decode small records
/// (ADR 14). Builds with debug assertions still run the check, so all tests do.
#[allow(unsafe_code, reason = "measured: see above and ADR 14")]
fn array(
    views: ScalarBuffer<u128>,
    buffers: Arc<[Buffer]>,
    nulls: Option<NullBuffer>,
) -> Result<BinaryViewArray, ArrowError> {
    if cfg!(debug_assertions) {
        BinaryViewArray::try_new(views.clone(), buffers.to_vec(), nulls.clone())?;
    }
    // SAFETY: views that point into a buffer are only created by `push_values`, which records in `reaches` the buffer
    // and the end of their range; `pointed_into` has checked that the buffer exists and contains that end. The prefix
    // of a view is the first four bytes of its range, and shorter values are stored inline, padded with zeroes: see
    // `view`.
    Ok(unsafe { BinaryViewArray::new_unchecked(views, buffers, nulls) })
}

#[inline(always)]
fn view(data: &[u8], origin: Origin, start: u32, len: i32) -> u128 {
    let at = start as usize;
    if len <= MAX_INLINE {
        return inline_view(data, at, len as u32);
    }
    let prefix = data.get(at..).and_then(<[u8]>::first_chunk::<4>).map_or(0, |p| u32::from_le_bytes(*p));
    // The sum does not overflow, because the fetched data is split into buffers of less than 2 GiB.
    let offset = origin.start + start;
    u128::from(len as u32) | u128::from(prefix) << 32 | u128::from(origin.buffer) << 64 | u128::from(offset) << 96
}

#[inline(always)]
fn inline_view(data: &[u8], start: usize, len: u32) -> u128 {
    // Usually a single wide load and a mask. Only in the last bytes of the data, the value is copied.
    let bytes = match data.get(start..).and_then(<[u8]>::first_chunk::<16>) {
        Some(chunk) => u128::from_le_bytes(*chunk) << 32,
        None => {
            let mut chunk = [0; 16];
            for (to, from) in chunk.iter_mut().zip(data.iter().skip(start).take(len as usize)) {
                *to = *from;
            }
            u128::from_le_bytes(chunk) << 32
        }
    };
    u128::from(len) | bytes & INLINE_MASKS[len as usize & 15]
}

/// Mask for each length, which selects the bits of a view that contain the value.
const INLINE_MASKS: [u128; 16] = {
    let mut masks = [0; 16];
    let mut len = 0;
    while len <= MAX_INLINE as usize {
        masks[len] = ((1 << (8 * len)) - 1) << 32;
        len += 1;
    }
    masks
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::layout::binary::BinaryColumn;

    const LONG: &[u8] = b"longer than twelve bytes";

    fn column(origin: Origin, values: &[&[u8]]) -> ViewColumn {
        let mut column = ViewColumn::default();
        for value in values {
            column.push_block(value, origin, &[0], &[value.len() as i32]).unwrap();
        }
        column
    }

    #[test]
    fn rejects_values_beyond_the_data() {
        fn check<C: ValueColumn>() {
            let spans: [(&[u32], &[i32]); 5] =
                [(&[0, 1], &[3, 3]), (&[4], &[1]), (&[u32::MAX], &[1]), (&[0], &[i32::MAX]), (&[0, 4, 0], &[4, 1, -1])];
            for (starts, lens) in spans {
                let mut column = C::default();
                let error = column.push_block(b"abc", Origin::default(), starts, lens).unwrap_err();
                assert!(matches!(error, RecordError::Beyond { len: 3, .. }), "{error}");
                // Earlier rows remain.
                column.truncate(0);
                column.push_block(b"abc", Origin::default(), &[1], &[2]).unwrap();
                assert_eq!(column.finish(&[]).unwrap().len(), 1);
            }
        }
        check::<ViewColumn>();
        check::<BinaryColumn>();
    }

    #[test]
    fn rejects_buffers_shorter_than_views() {
        let buffer = Buffer::from(LONG);
        let origin = |buffer, start| Origin { buffer, start };
        for (origin, fits) in [(origin(0, 0), true), (origin(0, 1), false), (origin(1, 0), false)] {
            let result = column(origin, &[LONG, b"short"]).finish(std::slice::from_ref(&buffer));
            assert_eq!(result.is_ok(), fits, "{origin:?}: {result:?}");
        }
    }

    #[test]
    fn inline_values_keep_no_buffer() {
        let buffers = [Buffer::from(LONG), Buffer::from(LONG), Buffer::from(LONG)];
        let finish = |mut column: ViewColumn| {
            let array = column.finish(&buffers).unwrap();
            let array = array.as_any().downcast_ref::<BinaryViewArray>().unwrap();
            array.data_buffers().iter().map(Buffer::len).collect::<Vec<_>>()
        };
        let none: Vec<usize> = Vec::new();
        assert_eq!(finish(column(Origin { buffer: 2, start: 0 }, &[b"", b"short", b"just twelve."])), none);
        assert_eq!(finish(column(Origin { buffer: 1, start: 0 }, &[b"short", LONG])), [0, LONG.len()]);
    }
}
