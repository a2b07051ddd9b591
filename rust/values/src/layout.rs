//! Access to bytes, text and lists in all layouts of a column.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray};
use arrow_buffer::{ArrowNativeType, Buffer, OffsetBuffer};
use arrow_schema::DataType;

use crate::error::{Fault, Reason, Step};

/// A column of bytes or text in one of the layouts.
#[derive(Debug, Clone)]
pub(crate) enum Blobs {
    Small(OffsetBuffer<i32>, Buffer),
    Large(OffsetBuffer<i64>, Buffer),
    Views(BinaryViewArray),
    Fixed(usize, Buffer),
}

impl Blobs {
    /// Returns the data of a text column.
    pub(crate) fn texts(array: &dyn Array) -> Option<Blobs> {
        Some(match array.data_type() {
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                Blobs::Small(array.offsets().clone(), array.values().clone())
            }
            DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                Blobs::Large(array.offsets().clone(), array.values().clone())
            }
            DataType::Utf8View => Blobs::Views(array.as_string_view().clone().to_binary_view()),
            _ => return None,
        })
    }

    /// Returns the data of a binary column.
    pub(crate) fn bytes(array: &dyn Array) -> Option<Blobs> {
        Some(match array.data_type() {
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                Blobs::Small(array.offsets().clone(), array.values().clone())
            }
            DataType::LargeBinary => {
                let array = array.as_binary::<i64>();
                Blobs::Large(array.offsets().clone(), array.values().clone())
            }
            DataType::BinaryView => Blobs::Views(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(size) => {
                let array = array.as_fixed_size_binary();
                Blobs::Fixed(usize::try_from(*size).ok()?, array.values().clone())
            }
            _ => return None,
        })
    }

    /// Returns the bytes of a row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Step<&[u8]> {
        let found = match self {
            Blobs::Small(offsets, data) => data.get(range(offsets, row)?),
            Blobs::Large(offsets, data) => data.get(range(offsets, row)?),
            Blobs::Views(views) => (row < views.len()).then(|| views.value(row)),
            Blobs::Fixed(size, data) => data.get(row * size..row * size + size),
        };
        found.ok_or_else(beyond)
    }
}

/// Ranges of the items that belong to each row of a list.
#[derive(Debug)]
pub(crate) enum Ranges {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
    Fixed(usize),
}

impl Ranges {
    #[inline]
    pub(crate) fn of(&self, row: usize) -> Step<Range<usize>> {
        match self {
            Ranges::Small(offsets) => range(offsets, row),
            Ranges::Large(offsets) => range(offsets, row),
            Ranges::Fixed(size) => Ok(row * size..row * size + size),
        }
    }
}

/// Returns the range of each row of a list, and the items.
pub(crate) fn items(array: &dyn Array) -> Option<(Ranges, &ArrayRef)> {
    Some(match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            (Ranges::Small(list.offsets().clone()), list.values())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (Ranges::Large(list.offsets().clone()), list.values())
        }
        DataType::FixedSizeList(_, size) => {
            (Ranges::Fixed(usize::try_from(*size).ok()?), array.as_fixed_size_list().values())
        }
        _ => return None,
    })
}

/// Returns the range that the offsets of a row specify.
#[inline(always)]
pub(crate) fn range<O: ArrowNativeType>(offsets: &[O], row: usize) -> Step<Range<usize>> {
    match offsets.get(row..) {
        Some([from, to, ..]) => Ok(from.as_usize()..to.as_usize()),
        _ => Err(beyond()),
    }
}

/// Returns the error for a column whose buffers are too short, which Arrow does not allow.
#[cold]
pub(crate) fn beyond() -> Box<Fault> {
    Reason::Other("the column ends before its rows do".into()).into()
}
