//! Runs of rows whose bytes have equal lengths.
use arrow_array::{Array, GenericByteArray, OffsetSizeTrait, types::GenericBinaryType};

use super::bytes::BytesColumn;

/// Number of rows whose lengths are compared at a time.
const GROUP: usize = 16;

impl BytesColumn {
    /// Returns the concatenated bytes of consecutive rows from `row` on that have the length `len`, up to `max_rows`
    /// rows.
    pub(super) fn equal_length_rows(&self, row: usize, max_rows: usize, len: usize) -> Option<&[u8]> {
        match self {
            BytesColumn::Binary(array) => between_offsets(array, row, max_rows, len),
            BytesColumn::LargeBinary(array) => between_offsets(array, row, max_rows, len),
            BytesColumn::Fixed(array) if array.null_count() == 0 => {
                let width = usize::try_from(array.value_length()).ok().filter(|width| *width == len)?;
                let end = row.saturating_add(max_rows).min(array.len());
                array.value_data().get(row * width..end * width)
            }
            _ => None,
        }
    }
}

fn between_offsets<O: OffsetSizeTrait>(
    array: &GenericByteArray<GenericBinaryType<O>>,
    row: usize,
    max_rows: usize,
    len: usize,
) -> Option<&[u8]> {
    if array.null_count() > 0 {
        return None;
    }
    let starts = array.value_offsets().get(row..)?;
    let ends = starts.get(1..)?;
    let (first, step) = (starts.first()?.as_usize(), O::from_usize(len)?);
    let mut rows = 0;
    // The lengths of a group are compared without a branch per row.
    for (starts, ends) in starts.chunks(GROUP).zip(ends.chunks(GROUP)).take(max_rows.div_ceil(GROUP)) {
        let steps = || starts.iter().zip(ends).map(|(start, end)| *end - *start == step);
        if !steps().fold(true, |all, same| all & same) {
            rows += steps().take_while(|same| *same).count();
            break;
        }
        rows += ends.len();
    }
    array.value_data().get(first..first + rows.min(max_rows) * len)
}
