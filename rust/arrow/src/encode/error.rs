//! Data that cannot be encoded.
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
        /// What the column was to hold.
        role: &'static str,
        /// Its name.
        name: String,
        /// The columns that exist.
        available: String,
    },
    /// Several columns have a name.
    #[error("the data has {count} columns {name:?}: rename or drop all but the one that is the {role}")]
    AmbiguousColumn {
        /// What the column is to hold.
        role: &'static str,
        /// Its name.
        name: String,
        /// The number of columns with the name.
        count: usize,
    },
    /// A column has a type that cannot hold what it is to hold.
    #[error("column {name:?} is {data_type}, but the {role} must be {expected}; cast it first")]
    WrongType {
        /// What the column is to hold.
        role: &'static str,
        /// Its name.
        name: String,
        /// Its type.
        data_type: DataType,
        /// What would do.
        expected: &'static str,
    },
    /// A column has a type that a format has no way to write.
    #[error("column {name:?} is {data_type}, which cannot be written as {format}: {why}")]
    Unwritable {
        /// Its name.
        name: String,
        /// Its type.
        data_type: Box<DataType>,
        /// The format.
        format: &'static str,
        /// What is in the way.
        why: String,
    },
    /// One row has a value that Kafka cannot take.
    #[error("row {row}: {what}")]
    Row {
        /// Which row, from 0.
        row: usize,
        /// What is wrong with it.
        what: String,
    },
    /// One row has a value that its format does not allow.
    #[error("row {row}, field {path}: {what}")]
    Value {
        /// The row, from 0.
        row: usize,
        /// The names that lead to the value; empty for the whole one.
        path: String,
        /// The reason, as the format has it.
        what: String,
    },
    /// A format that does not exist.
    #[error("there is no magic {magic}; it is 2 (from Kafka 0.11 on), 1 (from 0.10 on) or 0")]
    Magic {
        /// The magic asked for.
        magic: i8,
    },
    /// What only batches of magic 2 can hold.
    #[error("magic {magic} has no {what}; leave it out, or write magic 2")]
    OldFormat {
        /// The magic asked for.
        magic: i8,
        /// What it lacks.
        what: &'static str,
    },
    /// A batch cannot be built.
    #[error(transparent)]
    Batch(#[from] batch::EncodeError),
    /// Arrow refuses the columns.
    #[error("Arrow: {0}")]
    Arrow(#[from] ArrowError),
}

/// Fails if several columns have a name that is to be one column.
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
