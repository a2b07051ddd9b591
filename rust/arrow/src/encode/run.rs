//! Rows without headers, many at a time.
use arrow_array::{Array, GenericByteArray, OffsetSizeTrait, types::GenericBinaryType};
use samsarrow_wire::batch::{Alike, MOST_ALIKE, PlainRecord, PlainRows};

use super::bytes::BytesColumn;
use super::rows::RowReader;

/// Rows in their order; `record` is that of their types.
pub(super) struct InOrder<'a, F> {
    rows: &'a RowReader,
    record: F,
    /// For rows without a column of timestamps.
    defaults: [i64; MOST_ALIKE],
}

impl<'a, F: Fn(usize) -> PlainRecord<'a>> InOrder<'a, F> {
    pub(super) fn new(rows: &'a RowReader, default_timestamp: i64, record: F) -> Self {
        InOrder { rows, record, defaults: [default_timestamp; MOST_ALIKE] }
    }
}

impl<'a, F: Fn(usize) -> PlainRecord<'a>> PlainRows for InOrder<'a, F> {
    #[inline(always)]
    fn record(&self, row: usize) -> PlainRecord<'_> {
        (self.record)(row)
    }

    fn alike(&self, row: usize, most: usize, key_len: Option<usize>, value_len: usize) -> Option<Alike<'_>> {
        self.rows.alike(row, most, key_len, value_len, &self.defaults)
    }
}

/// Rows of which some are left out.
pub(super) struct Picked<'a> {
    pub(super) rows: &'a RowReader,
    pub(super) picked: &'a [u32],
    pub(super) default_timestamp: i64,
}

impl PlainRows for Picked<'_> {
    #[inline(always)]
    fn record(&self, index: usize) -> PlainRecord<'_> {
        // Past the end, where nothing is asked for, all is null.
        let row = self.picked.get(index).map_or(usize::MAX, |row| *row as usize);
        self.rows.plain(row, self.default_timestamp)
    }

    /// Their bytes do not lie one after the other.
    fn alike(&self, _: usize, _: usize, _: Option<usize>, _: usize) -> Option<Alike<'_>> {
        None
    }
}

/// Rows whose lengths are compared at a time.
const GROUP: usize = 16;

impl BytesColumn {
    /// The bytes of the rows from `row` on, `most` or fewer, that all have this length.
    pub(super) fn alike(&self, row: usize, most: usize, len: usize) -> Option<&[u8]> {
        match self {
            BytesColumn::Binary(array) => between_offsets(array, row, most, len),
            BytesColumn::LargeBinary(array) => between_offsets(array, row, most, len),
            BytesColumn::Fixed(array) if array.null_count() == 0 => {
                let width = usize::try_from(array.value_length()).ok().filter(|width| *width == len)?;
                let end = row.saturating_add(most).min(array.len());
                array.value_data().get(row * width..end * width)
            }
            _ => None,
        }
    }
}

fn between_offsets<O: OffsetSizeTrait>(
    array: &GenericByteArray<GenericBinaryType<O>>,
    row: usize,
    most: usize,
    len: usize,
) -> Option<&[u8]> {
    if array.null_count() > 0 {
        return None;
    }
    let starts = array.value_offsets().get(row..)?;
    let ends = starts.get(1..)?;
    let (first, step) = (starts.first()?.as_usize(), O::from_usize(len)?);
    let mut rows = 0;
    // In groups, which are compared without a branch for each row.
    for (starts, ends) in starts.chunks(GROUP).zip(ends.chunks(GROUP)).take(most.div_ceil(GROUP)) {
        let steps = || starts.iter().zip(ends).map(|(start, end)| *end - *start == step);
        if !steps().fold(true, |all, same| all & same) {
            rows += steps().take_while(|same| *same).count();
            break;
        }
        rows += ends.len();
    }
    array.value_data().get(first..first + rows.min(most) * len)
}
