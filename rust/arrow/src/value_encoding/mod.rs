//! Encoding of columns of any type as record values. Arrow's own writers encode the values, in steps of bounded size.

mod compact;
mod ipc;
mod json;
mod json_marks;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, LargeBinaryArray, RecordBatch, StructArray};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, Field, FieldRef};

pub use self::json_marks::FieldRules;
use self::json_marks::Marks;
use crate::encode::{EncodeError, check_unique, no_such_column};

/// Format of encoded values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueFormat {
    /// One JSON document per value.
    Json,
    /// One Arrow IPC stream per value: the schema, a record batch with one row, and the end.
    Ipc,
}

impl ValueFormat {
    /// Returns the format with this name.
    pub fn from_name(name: &str) -> Option<ValueFormat> {
        match name {
            "json" => Some(ValueFormat::Json),
            "ipc" => Some(ValueFormat::Ipc),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            ValueFormat::Json => "json",
            ValueFormat::Ipc => "ipc",
        }
    }
}

/// Columns that the values are encoded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueColumns {
    /// The value is the column with this name.
    One(String),
    /// The value is a struct with these columns as fields.
    Struct(Vec<String>),
}

/// Number of rows in the first step, when the size of the encoded rows is not known yet.
const FIRST_ROWS: usize = 64;
/// Maximum number of rows per step.
const MAX_ROWS: usize = 64 * 1024;

/// Encodes the values of a batch step by step.
#[derive(Debug)]
pub struct ValueWriter {
    field: FieldRef,
    column: ArrayRef,
    format: ValueFormat,
    next: usize,
    bytes: usize,
}

impl ValueWriter {
    /// Creates a writer. Finds the columns, and checks that their types can be encoded.
    pub fn new(data: &RecordBatch, columns: &ValueColumns, format: ValueFormat) -> Result<ValueWriter, EncodeError> {
        let (field, column) = match columns {
            ValueColumns::One(name) => one(data, name)?,
            ValueColumns::Struct(names) => {
                let parts = names.iter().map(|name| one(data, name)).collect::<Result<Vec<_>, _>>()?;
                for name in names {
                    let count = names.iter().filter(|other| *other == name).count();
                    if count > 1 {
                        return Err(EncodeError::AmbiguousColumn { role: "value", name: name.clone(), count });
                    }
                }
                let (fields, arrays): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
                let rows = StructArray::try_new_with_length(fields.into(), arrays, None, data.num_rows())?;
                let field = Field::new("value", rows.data_type().clone(), false);
                (Arc::new(field), Arc::new(rows) as ArrayRef)
            }
        };
        let mut writer = ValueWriter { field, column, format, next: 0, bytes: 0 };
        if format == ValueFormat::Json {
            writer.mark(None, json_marks::OWN)?;
        }
        writer.check()?;
        Ok(writer)
    }

    /// Applies a schema's field rules to the JSON output. The rules determine which null members are omitted, which
    /// strings are embedded as JSON, and which times of day are written with a UTC offset.
    pub fn following(mut self, schema: &Field, rules: FieldRules) -> Result<ValueWriter, EncodeError> {
        self.mark(Some(schema), rules)?;
        Ok(self)
    }

    fn mark(&mut self, schema: Option<&Field>, rules: FieldRules) -> Result<(), EncodeError> {
        let field = Field::clone(&self.field).with_data_type(self.column.data_type().clone());
        let marked = Marks::of(&field, schema, rules, "").mark(&self.column);
        self.column = marked.map_err(|error| EncodeError::Unwritable {
            name: field.name().clone(),
            data_type: Box::new(field.data_type().clone()),
            format: self.format.name(),
            why: message_of(&error),
        })?;
        Ok(())
    }

    /// Encodes zero rows, to detect types that the format does not support.
    fn check(&self) -> Result<(), EncodeError> {
        let none = self.column.slice(0, 0);
        let mut out = Values::default();
        self.write(&none, 0, &mut out).map_err(|error| EncodeError::Unwritable {
            name: self.field.name().clone(),
            data_type: Box::new(self.column.data_type().clone()),
            format: self.format.name(),
            why: match error {
                EncodeError::Arrow(error) => message_of(&error),
                error => error.to_string(),
            },
        })
    }

    /// Encodes at least one more row, but not much more than `max_bytes`. Returns the range of the encoded rows and
    /// their values, or `None` after the last row.
    pub fn next(&mut self, max_bytes: usize) -> Result<Option<(Range<usize>, LargeBinaryArray)>, EncodeError> {
        let left = self.column.len() - self.next;
        if left == 0 {
            return Ok(None);
        }
        // Slice only about as many rows as fit, because slicing costs a little for each row.
        let rows = match self.bytes.checked_div(self.next) {
            None => FIRST_ROWS,
            Some(each) => max_bytes / each.max(1) + 1,
        };
        let rows = self.column.slice(self.next, rows.min(MAX_ROWS).min(left));
        let mut out = Values::default();
        self.write(&rows, max_bytes, &mut out).map_err(|error| match error {
            EncodeError::Row { row, what } => EncodeError::Row { row: row + self.next, what },
            EncodeError::Value { row, path, what } => EncodeError::Value { row: row + self.next, path, what },
            error => error,
        })?;
        let start = self.next;
        self.next += out.ends.len();
        self.bytes += out.bytes.len();
        Ok(Some((start..self.next, out.finish()?)))
    }

    fn write(&self, rows: &ArrayRef, max_bytes: usize, out: &mut Values) -> Result<(), EncodeError> {
        match self.format {
            ValueFormat::Json => json::write(&self.field, rows, max_bytes, out),
            ValueFormat::Ipc => ipc::write(&self.field, rows, max_bytes, out),
        }
    }
}

fn one(data: &RecordBatch, name: &str) -> Result<(FieldRef, ArrayRef), EncodeError> {
    check_unique(data, "value", name)?;
    let column = data.schema_ref().fields().find(name).zip(data.column_by_name(name));
    let ((_, field), column) = column.ok_or_else(|| no_such_column(data, "value", name))?;
    Ok((Arc::clone(field), Arc::clone(column)))
}

/// Returns Arrow's error message without the prefix for the kind of error.
fn message_of(error: &ArrowError) -> String {
    match error {
        ArrowError::JsonError(text) | ArrowError::InvalidArgumentError(text) | ArrowError::SchemaError(text) => {
            text.clone()
        }
        error => error.to_string(),
    }
}

/// Encoded values, the end offset of each value, and the indices of nulls.
#[derive(Default)]
struct Values {
    bytes: Vec<u8>,
    ends: Vec<i64>,
    nulls: Vec<usize>,
}

impl Values {
    /// Ends a value whose bytes were appended to `bytes`.
    fn close(&mut self) {
        self.ends.push(self.bytes.len() as i64);
    }

    /// Appends a null record value, which differs from the JSON text `null`.
    fn null(&mut self) {
        self.nulls.push(self.ends.len());
        self.close();
    }

    fn is_full(&self, max_bytes: usize) -> bool {
        self.bytes.len() >= max_bytes && !self.ends.is_empty()
    }

    fn finish(self) -> Result<LargeBinaryArray, ArrowError> {
        let nulls = (!self.nulls.is_empty()).then(|| {
            let mut valid = BooleanBufferBuilder::new(self.ends.len());
            valid.append_n(self.ends.len(), true);
            self.nulls.iter().for_each(|&row| valid.set_bit(row, false));
            NullBuffer::new(valid.finish())
        });
        let mut offsets = self.ends;
        offsets.insert(0, 0);
        LargeBinaryArray::try_new(OffsetBuffer::new(ScalarBuffer::from(offsets)), self.bytes.into(), nulls)
    }
}
