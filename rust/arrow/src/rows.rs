//! Rows of Arrow columns as byte slices.
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType;

use crate::encode::{EncodeError, wrong_type};

const BYTES: &str = "binary or string (also large, view, fixed size or a dictionary of those)";
const HEADERS: &str = "a list of structs (key: string, value: binary), or a map";

/// A column of bytes of whatever type. Strings are taken as the binary arrays that they are, without a copy.
#[derive(Debug)]
pub(crate) enum BytesColumn {
    Null,
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    View(BinaryViewArray),
    Fixed(FixedSizeBinaryArray),
    /// For each row its index into the values, `NO_VALUE` for null.
    Dictionary(Vec<usize>, Box<BytesColumn>),
}

const NO_VALUE: usize = usize::MAX;

impl BytesColumn {
    pub(crate) fn new(role: &'static str, name: &str, array: &ArrayRef) -> Result<BytesColumn, EncodeError> {
        Ok(match array.data_type() {
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
        })
    }

    /// The bytes of a row; `None` for null, and past the end.
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
}

impl BytesColumn {
    /// Adds the length of each row's bytes, up to what 32 bits hold.
    pub(crate) fn add_lengths(&self, lengths: &mut [u32]) {
        match self {
            BytesColumn::Null => {}
            BytesColumn::Binary(array) if array.null_count() == 0 => {
                for (length, ends) in lengths.iter_mut().zip(array.value_offsets().windows(2)) {
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

fn indices<K: ArrowDictionaryKeyType>(array: &ArrayRef) -> Vec<usize>
where
    K::Native: TryInto<usize>,
{
    let keys = array.as_dictionary::<K>().keys();
    keys.iter().map(|key| key.and_then(|k| k.try_into().ok()).unwrap_or(NO_VALUE)).collect()
}

/// A column of headers.
#[derive(Debug)]
pub(crate) struct HeadersReader {
    lists: Lists,
    nulls: Option<NullBuffer>,
    keys: BytesColumn,
    values: BytesColumn,
}

#[derive(Debug)]
enum Lists {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
}

impl HeadersReader {
    pub(crate) fn new(name: &str, array: &ArrayRef) -> Result<HeadersReader, EncodeError> {
        let refuse = || wrong_type("headers", name, array, HEADERS);
        let (lists, entries): (Lists, &StructArray) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (Lists::Small(list.offsets().clone()), list.values().as_struct_opt().ok_or_else(refuse)?)
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (Lists::Large(list.offsets().clone()), list.values().as_struct_opt().ok_or_else(refuse)?)
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                (Lists::Small(map.offsets().clone()), map.entries())
            }
            _ => return Err(refuse()),
        };
        if entries.num_columns() != 2 {
            return Err(refuse());
        }
        // By name, or for maps and the like by position.
        let column = |name, at: usize| entries.column_by_name(name).or_else(|| entries.columns().get(at));
        let (Some(keys), Some(values)) = (column("key", 0), column("value", 1)) else { return Err(refuse()) };
        let reader = HeadersReader {
            lists,
            nulls: array.nulls().cloned(),
            keys: BytesColumn::new("key of the headers", name, keys)?,
            values: BytesColumn::new("value of the headers", name, values)?,
        };
        for row in 0..array.len() {
            if reader.get(row).range.any(|at| entries.is_null(at) || reader.keys.get(at).is_none()) {
                return Err(EncodeError::Row { row, what: "a header has no key; Kafka needs one".to_owned() });
            }
        }
        Ok(reader)
    }

    pub(crate) fn get(&self, row: usize) -> HeaderRow<'_> {
        if self.nulls.as_ref().is_some_and(|nulls| row >= nulls.len() || nulls.is_null(row)) {
            return HeaderRow::default();
        }
        let bounds = match &self.lists {
            Lists::Small(o) => o.get(row).zip(o.get(row + 1)).map(|(&a, &b)| (a as usize, b as usize)),
            Lists::Large(o) => o.get(row).zip(o.get(row + 1)).map(|(&a, &b)| (a as usize, b as usize)),
        };
        let (start, end) = bounds.unwrap_or_default();
        HeaderRow { columns: Some((&self.keys, &self.values)), range: start..end }
    }
}

/// The headers of one row.
#[derive(Debug, Clone, Default)]
pub struct HeaderRow<'a> {
    columns: Option<(&'a BytesColumn, &'a BytesColumn)>,
    range: std::ops::Range<usize>,
}

impl<'a> Iterator for HeaderRow<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let (keys, values) = self.columns?;
        let at = self.range.next()?;
        Some((keys.get(at).unwrap_or_default(), values.get(at)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}
