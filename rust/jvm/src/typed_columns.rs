//! Columns of a task's rows that are encoded as keys or values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, ListArray, RecordBatch, StringArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use samsarrow_spark::WriteOptions;
use samsarrow_spark::columns::Column;
use samsarrow_spark::typed::{ValueEncoder, WriterSchemas};
use samsarrow_values::{EncodeError, Part};

use crate::failure::{Failure, Result};
use crate::unsafe_rows::{self, Fault};

/// Encoders of the key and the value of a task's rows, if these are encoded.
#[derive(Debug)]
pub(crate) struct TypedColumns {
    columns: Vec<TypedColumn>,
    /// Number of rows that were encoded before.
    rows_before: usize,
    /// Topic of all rows; `None` if the rows have topics.
    topic: Option<String>,
    /// Number of the task in its stage.
    task: Option<i64>,
}

#[derive(Debug)]
struct TypedColumn {
    column: Column,
    is_fixed: bool,
    values: unsafe_rows::Column,
    encoder: ValueEncoder,
}

/// Keys or values row by row.
type Rows<'a> = Box<dyn Iterator<Item = Option<&'a [u8]>> + 'a>;

/// Encoded keys and values of a buffer, row by row.
pub(crate) struct Encoded<'a>(Vec<(Column, Rows<'a>)>);

impl<'a> Encoded<'a> {
    /// Returns the next key or value. `None` if the column is not encoded.
    pub(crate) fn next(&mut self, column: Column) -> Option<Option<&'a [u8]>> {
        self.0.iter_mut().find(|(encoded, _)| *encoded == column)?.1.next()
    }
}

/// Encoded arrays by column.
pub(crate) struct EncodedArrays(Vec<(Column, Vec<BinaryArray>)>);

impl EncodedArrays {
    /// Returns the keys and values from the first row on.
    pub(crate) fn rows(&self) -> Encoded<'_> {
        let rows = self.0.iter().map(|(column, arrays)| {
            let rows: Box<dyn Iterator<Item = _>> = Box::new(arrays.iter().flat_map(BinaryArray::iter));
            (*column, rows)
        });
        Encoded(rows.collect())
    }
}

impl TypedColumns {
    /// Creates the encoders of a task.
    ///
    /// # Errors
    /// Fails if a column does not fit its schema.
    pub(crate) fn new(options: &WriteOptions, schemas: &WriterSchemas, task: Option<i64>) -> Result<TypedColumns> {
        let mut columns = Vec::new();
        for written in &options.written {
            let name = written.part.name();
            let missing = || Failure::state(format!("the jar passed no schema for the column {name}"));
            let untyped = || Failure::state(format!("the column {name} has a type that is not written"));
            columns.push(TypedColumn {
                column: match written.part {
                    Part::Key => Column::Key,
                    Part::Value => Column::Value,
                },
                is_fixed: unsafe_rows::is_fixed(&written.data_type),
                values: unsafe_rows::Column::new(&written.data_type).ok_or_else(untyped)?,
                encoder: written.encoder(schemas.get(name).ok_or_else(missing)?)?,
            });
        }
        Ok(TypedColumns { columns, rows_before: 0, topic: options.topic.clone(), task })
    }

    /// Returns true if neither keys nor values are encoded.
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Returns true if the buffer has numbers in this column, false if it has byte strings, and `None` if the column is
    /// not encoded.
    pub(crate) fn is_fixed(&self, column: Column) -> Option<bool> {
        self.columns.iter().find(|typed| typed.column == column).map(|typed| typed.is_fixed)
    }

    /// Appends a value of a row of the buffer. Returns false if its bytes are malformed.
    ///
    /// # Errors
    /// Fails if a string is not UTF-8.
    pub(crate) fn append(&mut self, column: Column, row: usize, cell: Option<&[u8]>) -> Result<bool> {
        let Some(typed) = self.columns.iter_mut().find(|typed| typed.column == column) else { return Ok(false) };
        match typed.values.append(cell) {
            Ok(()) => Ok(true),
            Err(Fault::Malformed) => Ok(false),
            Err(Fault::Utf8(path)) => Err(self.bad_value(column, row, &path, "the text is not UTF-8")),
            Err(Fault::Long) => Err(self.bad_value(
                column,
                row,
                "",
                "the lists of a block of rows have more than 2,147,483,647 elements",
            )),
        }
    }

    /// Encodes the appended rows.
    ///
    /// # Errors
    /// Fails if a row does not fit the schema.
    pub(crate) fn encode(&mut self, rows: usize) -> Result<EncodedArrays> {
        let mut encoded = Vec::new();
        for at in 0..self.columns.len() {
            let Some(typed) = self.columns.get_mut(at) else { continue };
            let column = typed.column;
            let values = typed.values.finish().map_err(|error| invalid(&error))?;
            match typed.encoder.encode(&values) {
                Ok(arrays) => encoded.push((column, arrays)),
                Err(EncodeError::Bad(bad)) => return Err(self.bad_value(column, bad.row, &bad.path, &bad.reason)),
                Err(EncodeError::Schema(error)) => {
                    let error = samsarrow_client::error::Error::configuration(error.to_string());
                    return Err(error.into());
                }
            }
        }
        self.rows_before += rows;
        Ok(EncodedArrays(encoded))
    }

    /// Adds the headers that identify schemas to the rows of a topic.
    ///
    /// # Errors
    /// Fails if the name of a header is not UTF-8.
    pub(crate) fn with_headers(&self, mut batch: RecordBatch) -> Result<RecordBatch> {
        for typed in self.columns.iter().filter(|typed| typed.encoder.writes_header()) {
            let values = batch.column_by_name(typed.column.name()).map(Arc::clone);
            let values = values.ok_or_else(|| crate::failure::wrong_column(typed.column.name()))?;
            let headers = batch.column_by_name(HEADERS).map(with_text_names).transpose();
            let headers = headers.map_err(|error| invalid(&error))?;
            let headers = typed.encoder.with_header(headers.as_ref(), &values).map_err(Failure::state)?;
            if let Some(headers) = headers {
                batch = replace(&batch, headers).map_err(|error| invalid(&error))?;
            }
        }
        Ok(batch)
    }

    #[cold]
    fn bad_value(&self, column: Column, row: usize, path: &str, reason: &str) -> Failure {
        let row = format!("row {}", self.rows_before + row);
        let field = (!path.is_empty()).then(|| format!("field {path}"));
        let places: Vec<&str> = self.topic.as_deref().into_iter().chain([&*row]).chain(field.as_deref()).collect();
        let task = self.task.map(|task| format!(" of task {task}")).unwrap_or_default();
        let (places, name) = (places.join(", "), column.name());
        Failure::bad_value(format!(
            "{places}: {reason}. It is in the column {name}; rows are counted from 0, among those{task}."
        ))
    }
}

const HEADERS: &str = "headers";

/// Returns headers whose names are strings. The names in buffers are binary.
fn with_text_names(headers: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let unexpected = || ArrowError::SchemaError("headers are no list of names and values".to_owned());
    let list = headers.as_list_opt::<i32>().ok_or_else(unexpected)?;
    let (_, offsets, pairs, nulls) = list.clone().into_parts();
    let pairs = pairs.as_struct_opt().ok_or_else(unexpected)?;
    let [names, values] = pairs.columns() else { return Err(unexpected()) };
    let names: ArrayRef = match names.as_binary_opt::<i32>() {
        Some(names) => Arc::new(StringArray::try_from_binary(names.clone())?),
        None => Arc::clone(names),
    };
    let pairs: StructArray = vec![
        (Arc::new(Field::new("key", DataType::Utf8, true)), names),
        (Arc::new(Field::new("value", DataType::Binary, true)), Arc::clone(values)),
    ]
    .into();
    let item = Arc::new(Field::new("element", pairs.data_type().clone(), true));
    Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(pairs), nulls)?))
}

/// Returns the batch with other headers.
fn replace(batch: &RecordBatch, headers: ArrayRef) -> Result<RecordBatch, ArrowError> {
    let fields = batch.schema_ref().fields().iter().cloned().zip(batch.columns().iter().cloned());
    let (mut fields, mut columns): (Vec<_>, Vec<_>) = fields.filter(|(field, _)| field.name() != HEADERS).unzip();
    fields.push(Arc::new(Field::new(HEADERS, headers.data_type().clone(), true)));
    columns.push(headers);
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn invalid(error: &ArrowError) -> Failure {
    Failure::from(samsarrow_client::error::Error::configuration(format!(
        "the rows do not have the types that the DataFrame declares: {error}"
    )))
}
