//! Errors of encoding.
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType};
use samsarrow_wire::batch;

/// Data that cannot be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A named column does not exist.
    #[error("there is no column {name:?} for the {role}; the data has {available}")]
    NoSuchColumn {
        /// Role that the column was requested for, such as `key`.
        role: &'static str,
        /// Name of the column.
        name: String,
        /// Names of the existing columns.
        available: String,
    },
    /// Several columns have the same name.
    #[error("the data has {count} columns {name:?}: rename or drop all but the one that is the {role}")]
    AmbiguousColumn {
        /// Role that the column was requested for, such as `key`.
        role: &'static str,
        /// Name of the column.
        name: String,
        /// Number of columns with this name.
        count: usize,
    },
    /// The type of a column is invalid for its role.
    #[error("column {name:?} is {data_type}, but the {role} must be {expected}; cast it first")]
    WrongType {
        /// Role that the column was requested for, such as `key`.
        role: &'static str,
        /// Name of the column.
        name: String,
        /// Type of the column.
        data_type: DataType,
        /// The supported types.
        expected: &'static str,
    },
    /// The value format does not support the type of a column.
    #[error("column {name:?} is {data_type}, which cannot be written as {format}: {why}")]
    Unwritable {
        /// Name of the column.
        name: String,
        /// Type of the column.
        data_type: Box<DataType>,
        /// The format.
        format: &'static str,
        /// The reason.
        why: String,
    },
    /// A row cannot be stored in Kafka.
    #[error("row {row}: {what}")]
    Row {
        /// Index of the invalid row within the data, from 0.
        row: usize,
        /// Reason why the row is invalid.
        what: String,
    },
    /// The value of a row cannot be written in the value format.
    #[error("row {row}, field {path}: {what}")]
    Value {
        /// Index of the invalid row within the data, from 0.
        row: usize,
        /// Path of the invalid field within the value; empty for the value itself.
        path: String,
        /// Reason why the field is invalid, as reported by the encoder of the format.
        what: String,
    },
    /// The message format does not exist.
    #[error("there is no magic {magic}; it is 2 (from Kafka 0.11 on), 1 (from 0.10 on) or 0")]
    Magic {
        /// The requested magic.
        magic: i8,
    },
    /// The message format does not have a requested feature.
    #[error("magic {magic} has no {what}; leave it out, or write magic 2")]
    OldFormat {
        /// The requested magic.
        magic: i8,
        /// The missing feature.
        what: &'static str,
    },
    /// A batch cannot be built.
    #[error(transparent)]
    Batch(#[from] batch::EncodeError),
    /// Arrow rejected the columns.
    #[error("Arrow: {0}")]
    Arrow(#[from] ArrowError),
}

/// Returns an error if several columns have the name `name`.
pub(crate) fn check_unique(data: &RecordBatch, role: &'static str, name: &str) -> Result<(), EncodeError> {
    match data.schema_ref().fields().iter().filter(|field| field.name() == name).count() {
        0 | 1 => Ok(()),
        count => Err(EncodeError::AmbiguousColumn { role, name: name.to_owned(), count }),
    }
}

pub(crate) fn no_such_column(data: &RecordBatch, role: &'static str, name: &str) -> EncodeError {
    let available = data.schema().fields().iter().map(|f| format!("{:?}", f.name())).collect::<Vec<_>>().join(", ");
    EncodeError::NoSuchColumn { role, name: name.to_owned(), available }
}

pub(crate) fn wrong_type(role: &'static str, name: &str, array: &dyn Array, expected: &'static str) -> EncodeError {
    EncodeError::WrongType { role, name: name.to_owned(), data_type: array.data_type().clone(), expected }
}
