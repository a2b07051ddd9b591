//! What values and headers of records name as the schema that they were written with.

use std::collections::BTreeSet;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, ListArray, StringArray};
use samsarrow_values::{Part, SchemaId};

use crate::value_format::Format;

/// The ids and GUIDs that values name.
pub(crate) fn ids<'a>(
    format: &Format,
    values: impl Iterator<Item = Option<&'a [u8]>>,
    headers: Option<&Headers>,
) -> BTreeSet<SchemaId> {
    let (mut found, mut last) = (BTreeSet::new(), None);
    for (row, value) in values.enumerate() {
        let Some(value) = value else { continue };
        let Some(id) = format.id(value, headers.and_then(|headers| headers.of_row(row))) else { continue };
        if last != Some(id) && matches!(id, SchemaId::Id(_) | SchemaId::Guid(_)) {
            found.insert(id);
        }
        last = Some(id);
    }
    found
}

/// The column of headers as consumers give it.
pub(crate) struct Headers {
    rows: ListArray,
    names: StringArray,
    values: BinaryArray,
    name: &'static str,
}

impl Headers {
    /// # Errors
    /// It is of another type; the text says so.
    pub(crate) fn of(column: &ArrayRef, part: Part) -> Result<Headers, String> {
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
    pub(crate) fn of_row(&self, row: usize) -> Option<&[u8]> {
        let offsets = self.rows.value_offsets();
        let (start, end) = (*offsets.get(row)? as usize, *offsets.get(row + 1)? as usize);
        if self.rows.is_null(row) {
            return None;
        }
        let at = (start..end).rev().find(|&at| self.names.is_valid(at) && self.names.value(at) == self.name)?;
        self.values.is_valid(at).then(|| self.values.value(at))
    }
}
