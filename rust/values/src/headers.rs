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
pub(crate) struct Pairs {
    rows: ListArray,
    names: StringArray,
    values: BinaryArray,
}

impl Pairs {
    /// Takes the names and values from a headers column.
    ///
    /// # Errors
    /// Fails if the column is not a headers column as consumers return it.
    pub(crate) fn of(column: &ArrayRef) -> Result<Pairs, String> {
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
    let mut column = HeadersBuilder::default();
    for row in 0..written.len() {
        if let Some(existing) = &existing {
            column.copy(existing, row);
        }
        if written.is_valid(row) {
            column.append(name, value);
        }
        column.end_row();
    }
    column.finish()
}

/// Builder of a headers column.
#[derive(Debug, Default)]
pub(crate) struct HeadersBuilder {
    names: StringBuilder,
    values: BinaryBuilder,
    lengths: Vec<usize>,
    /// Number of headers in the finished rows.
    finished: usize,
}

impl HeadersBuilder {
    /// Appends the headers of a row of another column to the current row.
    pub(crate) fn copy(&mut self, from: &Pairs, row: usize) {
        for at in from.of_row(row) {
            self.names.append_option(from.names.is_valid(at).then(|| from.names.value(at)));
            self.values.append_option(from.value(at));
        }
    }

    /// Appends a header to the current row.
    pub(crate) fn append(&mut self, name: &str, value: &[u8]) {
        self.names.append_value(name);
        self.values.append_value(value);
    }

    pub(crate) fn end_row(&mut self) {
        self.lengths.push(self.names.len() - self.finished);
        self.finished = self.names.len();
    }

    /// Returns the column.
    ///
    /// # Errors
    /// Fails if the column has too many headers.
    pub(crate) fn finish(mut self) -> Result<ArrayRef, String> {
        let fields =
            Fields::from(vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)]);
        let pairs =
            StructArray::try_new(fields, vec![Arc::new(self.names.finish()), Arc::new(self.values.finish())], None);
        let pairs = pairs.map_err(|error| error.to_string())?;
        let item = Arc::new(Field::new("item", pairs.data_type().clone(), true));
        let rows = ListArray::try_new(item, OffsetBuffer::from_lengths(self.lengths), Arc::new(pairs), None);
        Ok(Arc::new(rows.map_err(|error| error.to_string())?))
    }
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
