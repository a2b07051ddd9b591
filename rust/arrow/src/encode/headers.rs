//! Access to rows of a headers column.
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType;

use super::bytes::BytesColumn;
use super::error::{EncodeError, wrong_type};

const HEADERS: &str = "a list of structs (key: string, value: binary), or a map";

/// A column of headers: the lists of all rows, and their keys and values.
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
        let wrong = || wrong_type("headers", name, array, HEADERS);
        let (lists, entries): (Lists, &StructArray) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (Lists::Small(list.offsets().clone()), list.values().as_struct_opt().ok_or_else(wrong)?)
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (Lists::Large(list.offsets().clone()), list.values().as_struct_opt().ok_or_else(wrong)?)
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                (Lists::Small(map.offsets().clone()), map.entries())
            }
            _ => return Err(wrong()),
        };
        if entries.num_columns() != 2 {
            return Err(wrong());
        }
        // Finds the field by name. If it does not exist, uses the position, because maps may use other names.
        let column = |name, at: usize| entries.column_by_name(name).or_else(|| entries.columns().get(at));
        let (Some(keys), Some(values)) = (column("key", 0), column("value", 1)) else { return Err(wrong()) };
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
        // The bounds always exist, because Arrow has checked that each row of a list array has both offsets.
        let (start, end) = bounds.unwrap_or_default();
        HeaderRow { columns: Some((&self.keys, &self.values)), range: start..end }
    }
}

/// Iterator over the headers of one row.
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
        // Null keys were rejected in `HeadersReader::new`.
        Some((keys.get(at).unwrap_or_default(), values.get(at)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}
