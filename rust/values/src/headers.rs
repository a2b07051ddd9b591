//! Record headers with the schema ids of keys or values.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, BinaryBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, ListArray, StringArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields};

use crate::others::Other;

/// Column of record headers as consumers return it, with the names of relevant headers.
#[derive(Debug)]
pub struct Headers {
    pairs: Pairs,
    /// Names of headers with schema ids. The first name that occurs in a row is used.
    names: Vec<&'static str>,
    /// Headers of other registries, if at least one row has them.
    others: Vec<Other>,
}

/// Names and values of the headers in all rows.
#[derive(Debug)]
struct Pairs {
    rows: ListArray,
    names: StringArray,
    values: BinaryArray,
}

impl Pairs {
    /// Takes the names and values from a headers column.
    ///
    /// # Errors
    /// Fails if the column is not a headers column as consumers return it.
    fn of(column: &ArrayRef) -> Result<Pairs, String> {
        let found = || {
            let rows = column.as_list_opt::<i32>()?.clone();
            let pairs = rows.values().as_struct_opt()?;
            let names = pairs.column_by_name("key")?.as_string_opt::<i32>()?.clone();
            let values = pairs.column_by_name("value")?.as_binary_opt::<i32>()?.clone();
            Some(Pairs { rows, names, values })
        };
        let kind = column.data_type();
        found().ok_or_else(|| {
            format!("headers must be list<struct<key: string, value: binary>>, as of a consumer, not {kind}")
        })
    }

    fn value(&self, at: usize) -> Option<&[u8]> {
        self.values.is_valid(at).then(|| self.values.value(at))
    }

    /// Returns the range of a row's headers.
    fn of_row(&self, row: usize) -> Range<usize> {
        let offsets = self.rows.value_offsets();
        match (offsets.get(row), offsets.get(row + 1)) {
            (Some(start), Some(end)) if self.rows.is_valid(row) => *start as usize..*end as usize,
            _ => 0..0,
        }
    }
}

/// Adds a header to the rows whose value is not null. Null values (tombstones) have no schema.
///
/// # Errors
/// Fails if the headers column has an unsuitable type.
pub fn with_header(
    headers: Option<&ArrayRef>,
    written: &ArrayRef,
    name: &str,
    value: &[u8],
) -> Result<ArrayRef, String> {
    let existing = headers.map(Pairs::of).transpose()?;
    let (mut names, mut values, mut lengths) = (StringBuilder::new(), BinaryBuilder::new(), Vec::new());
    for row in 0..written.len() {
        let before = names.len();
        if let Some(existing) = &existing {
            for at in existing.of_row(row) {
                names.append_option(existing.names.is_valid(at).then(|| existing.names.value(at)));
                values.append_option(existing.values.is_valid(at).then(|| existing.values.value(at)));
            }
        }
        if written.is_valid(row) {
            names.append_value(name);
            values.append_value(value);
        }
        lengths.push(names.len() - before);
    }
    let fields =
        Fields::from(vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)]);
    let pairs = StructArray::try_new(fields, vec![Arc::new(names.finish()), Arc::new(values.finish())], None);
    let pairs = pairs.map_err(|error| error.to_string())?;
    let item = Arc::new(Field::new("item", pairs.data_type().clone(), true));
    let rows = ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), Arc::new(pairs), None);
    Ok(Arc::new(rows.map_err(|error| error.to_string())?))
}

impl Headers {
    /// Creates the headers from a column. Returns `None` if no row has headers.
    ///
    /// # Errors
    /// Fails if the column has an unsuitable type.
    pub(crate) fn of(
        column: &ArrayRef,
        names: Vec<&'static str>,
        mut others: Vec<Other>,
    ) -> Result<Option<Headers>, String> {
        let pairs = Pairs::of(column)?;
        let offsets = pairs.rows.value_offsets();
        if offsets.first() == offsets.last() {
            return Ok(None);
        }
        others.retain(|other| pairs.names.iter().flatten().any(|name| name == other.name()));
        Ok(Some(Headers { pairs, names, others }))
    }

    /// Returns a header of another registry in this row, if it shows that the value has no Confluent frame.
    pub(crate) fn other(&self, row: usize, value: &[u8]) -> Option<Other> {
        self.others.iter().copied().find(|other| {
            let header = self.last(row, other.name());
            header.is_some_and(|at| other.excludes_frame(self.pairs.value(at), value))
        })
    }

    /// Returns the value of the header with the schema id, if the row has one. If the header is repeated, the last
    /// value counts, as in Java's deserializers.
    pub fn of_row(&self, row: usize) -> Option<&[u8]> {
        let at = self.names.iter().find_map(|name| self.last(row, name))?;
        self.pairs.value(at)
    }

    /// Returns the index of the last header with this name in a row.
    fn last(&self, row: usize, name: &str) -> Option<usize> {
        let names = &self.pairs.names;
        self.pairs.of_row(row).rev().find(|&at| names.is_valid(at) && names.value(at) == name)
    }
}
