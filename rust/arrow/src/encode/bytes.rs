//! Access to rows of Arrow columns as byte slices.
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray, OffsetSizeTrait,
    new_empty_array,
};
use arrow_schema::DataType;
use samsarrow_wire::ShortBytes;

use super::error::{EncodeError, wrong_type};

const BYTES: &str = "binary or string (also large, view, fixed size or a dictionary of those)";

/// A column of any binary or string type. Strings are converted to binary arrays without copying.
#[derive(Debug)]
pub(crate) enum BytesColumn {
    Null,
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    View(BinaryViewArray),
    Fixed(FixedSizeBinaryArray),
    /// Index of each row's value in the dictionary (`NO_VALUE` for a null row), and the dictionary.
    Dictionary(Vec<usize>, Box<BytesColumn>),
}

const NO_VALUE: usize = usize::MAX;

/// Returns true if columns of this type are binary or strings, whose bytes are encoded unchanged.
pub fn is_bytes(data_type: &DataType) -> bool {
    BytesColumn::new("value", "value", &new_empty_array(data_type)).is_ok()
}

impl BytesColumn {
    pub(crate) fn new(role: &'static str, name: &str, array: &ArrayRef) -> Result<BytesColumn, EncodeError> {
        let column = match array.data_type() {
            DataType::Null => BytesColumn::Null,
            DataType::Binary => BytesColumn::Binary(array.as_binary().clone()),
            DataType::LargeBinary => BytesColumn::LargeBinary(array.as_binary().clone()),
            DataType::BinaryView => BytesColumn::View(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) => BytesColumn::Fixed(array.as_fixed_size_binary().clone()),
            DataType::Utf8 => BytesColumn::Binary(array.as_string::<i32>().clone().into()),
            DataType::LargeUtf8 => BytesColumn::LargeBinary(array.as_string::<i64>().clone().into()),
            DataType::Utf8View => BytesColumn::View(array.as_string_view().clone().to_binary_view()),
            DataType::Dictionary(key, _) => {
                let indices = match key.as_ref() {
                    DataType::Int8 => indices::<Int8Type>(array),
                    DataType::Int16 => indices::<Int16Type>(array),
                    DataType::Int32 => indices::<Int32Type>(array),
                    DataType::Int64 => indices::<Int64Type>(array),
                    DataType::UInt8 => indices::<UInt8Type>(array),
                    DataType::UInt16 => indices::<UInt16Type>(array),
                    DataType::UInt32 => indices::<UInt32Type>(array),
                    DataType::UInt64 => indices::<UInt64Type>(array),
                    _ => return Err(wrong_type(role, name, array, BYTES)),
                };
                let values = array.as_any_dictionary().values();
                match BytesColumn::new(role, name, values)? {
                    BytesColumn::Null => BytesColumn::Null,
                    values => BytesColumn::Dictionary(indices, Box::new(values)),
                }
            }
            _ => return Err(wrong_type(role, name, array, BYTES)),
        };
        Ok(if array.null_count() == array.len() { BytesColumn::Null } else { column })
    }

    /// Returns the bytes of a row; `None` if the row is null or does not exist.
    #[inline(always)]
    pub(crate) fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            BytesColumn::Null => None,
            BytesColumn::Binary(array) => (row < array.len() && array.is_valid(row)).then(|| array.value(row)),
            BytesColumn::LargeBinary(array) => (row < array.len() && array.is_valid(row)).then(|| array.value(row)),
            BytesColumn::View(array) => (row < array.len() && array.is_valid(row)).then(|| array.value(row)),
            BytesColumn::Fixed(array) => (row < array.len() && array.is_valid(row)).then(|| array.value(row)),
            BytesColumn::Dictionary(indices, values) => values.get(*indices.get(row)?),
        }
    }

    /// Returns the bytes of a row together with the bytes that follow in the column, for copies of a fixed size.
    #[inline]
    pub(crate) fn short_bytes(&self, row: usize) -> Option<ShortBytes<'_>> {
        match self {
            BytesColumn::Binary(array) if row < array.len() && array.is_valid(row) => short_bytes(array, row),
            BytesColumn::Binary(_) => None,
            column => column.get(row).map(ShortBytes::from),
        }
    }
}

/// Returns the bytes of a row that is not null, together with the bytes that follow in the array.
#[inline]
pub(crate) fn short_bytes(array: &BinaryArray, row: usize) -> Option<ShortBytes<'_>> {
    let [start, end] = *array.value_offsets().get(row..)?.first_chunk::<2>()?;
    ShortBytes::of(array.value_data(), start as usize, end.wrapping_sub(start) as usize)
}

impl BytesColumn {
    /// Returns the total size of all rows, if it is known without iterating over them.
    pub(crate) fn bytes(&self) -> Option<usize> {
        match self {
            BytesColumn::Null => Some(0),
            BytesColumn::Binary(array) => Some(between(array.value_offsets())),
            BytesColumn::LargeBinary(array) => Some(between(array.value_offsets())),
            BytesColumn::Fixed(array) => Some(array.value_data().len()),
            BytesColumn::View(_) | BytesColumn::Dictionary(..) => None,
        }
    }

    /// Adds the length of each row to `lengths`, saturating at 32 bits.
    pub(crate) fn add_lengths(&self, lengths: &mut [u32]) {
        match self {
            BytesColumn::Null => {}
            BytesColumn::Binary(array) if array.null_count() == 0 => {
                for (length, ends) in lengths.iter_mut().zip(array.value_offsets().windows(2)) {
                    // Each window has exactly two offsets.
                    let [start, end] = ends else { continue };
                    *length = length.saturating_add(end.wrapping_sub(*start) as u32);
                }
            }
            column => {
                for (row, length) in lengths.iter_mut().enumerate() {
                    let bytes = column.get(row).map_or(0, <[u8]>::len);
                    *length = length.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
                }
            }
        }
    }
}

fn between<O: OffsetSizeTrait>(offsets: &[O]) -> usize {
    offsets.last().zip(offsets.first()).map_or(0, |(last, first)| last.as_usize() - first.as_usize())
}

fn indices<K: ArrowDictionaryKeyType>(array: &ArrayRef) -> Vec<usize>
where
    K::Native: TryInto<usize>,
{
    let keys = array.as_dictionary::<K>().keys();
    keys.iter().map(|key| key.and_then(|k| k.try_into().ok()).unwrap_or(NO_VALUE)).collect()
}
