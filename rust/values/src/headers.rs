//! The headers of records that name the schemas of their keys or values.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, ListArray, StringArray};

use crate::frame::Part;

/// The column of headers as consumers give it.
#[derive(Debug)]
pub struct Headers {
    rows: ListArray,
    names: StringArray,
    values: BinaryArray,
    name: &'static str,
}

impl Headers {
    /// Those about a part of each record.
    ///
    /// # Errors
    /// The column is of another type; the text says so.
    pub fn of(column: &ArrayRef, part: Part) -> Result<Headers, String> {
        let found = || {
            let rows = column.as_list_opt::<i32>()?.clone();
            let pairs = rows.values().as_struct_opt()?;
            let names = pairs.column_by_name("key")?.as_string_opt::<i32>()?.clone();
            let values = pairs.column_by_name("value")?.as_binary_opt::<i32>()?.clone();
            Some(Headers { rows, names, values, name: part.header() })
        };
        let kind = column.data_type();
        found().ok_or_else(|| {
            format!("headers must be list<struct<key: string, value: binary>>, as of a consumer, not {kind}")
        })
    }

    /// The last of the name, as Java's deserializers take it.
    pub fn of_row(&self, row: usize) -> Option<&[u8]> {
        let offsets = self.rows.value_offsets();
        let (start, end) = (*offsets.get(row)? as usize, *offsets.get(row + 1)? as usize);
        if self.rows.is_null(row) {
            return None;
        }
        let at = (start..end).rev().find(|&at| self.names.is_valid(at) && self.names.value(at) == self.name)?;
        self.values.is_valid(at).then(|| self.values.value(at))
    }
}
