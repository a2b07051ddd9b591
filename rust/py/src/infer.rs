//! Inference of a schema from JSON values.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use samsarrow_bridge::arrow_ffi;
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::interpreter_guard;
use samsarrow_client::error::Error;
use samsarrow_values::BadValue;
use samsarrow_values::json::Inference;

/// An empty batch with the inferred columns or, if a value is bad, its row and the reason.
type Inferred<'py> = (Option<Bound<'py, PyAny>>, Option<(usize, String)>);

/// See `samsarrow.infer_schema`. The first column of the batches contains the values.
#[pyfunction]
pub(crate) fn infer_json<'py>(py: Python<'py>, batches: &Bound<'py, PyAny>) -> PyResult<Inferred<'py>> {
    let config_error = |text: String| to_py(py, &Error::configuration(text));
    let mut input = arrow_ffi::from_python(batches)?;
    let mut inference = Inference::default();
    while let Some(batch) = input.next(py)? {
        let column = batch.columns().first().ok_or_else(|| config_error("there is no column".to_owned()))?;
        match interpreter_guard::detach(py, || push_all(&mut inference, column)) {
            Ok(()) => (),
            Err(Failure::Bad(bad)) => return Ok((None, Some((bad.row, bad.reason)))),
            Err(Failure::Type(text)) => return Err(PyTypeError::new_err(text)),
        }
    }
    let schema = inference.finish().map_err(|error| config_error(error.to_string()))?;
    let batch = RecordBatch::new_empty(Arc::new(schema));
    Ok((Some(arrow_ffi::to_pyarrow(py, &batch)?), None))
}

enum Failure {
    Bad(BadValue),
    Type(String),
}

fn push_all(inference: &mut Inference, column: &ArrayRef) -> Result<(), Failure> {
    match column.data_type() {
        DataType::Binary => push(inference, column.as_binary::<i32>().iter()),
        DataType::LargeBinary => push(inference, column.as_binary::<i64>().iter()),
        DataType::BinaryView => push(inference, column.as_binary_view().iter()),
        DataType::Utf8 => push(inference, column.as_string::<i32>().iter()),
        DataType::LargeUtf8 => push(inference, column.as_string::<i64>().iter()),
        DataType::Utf8View => push(inference, column.as_string_view().iter()),
        DataType::Null => push(inference, (0..column.len()).map(|_| None::<&[u8]>)),
        other => Err(Failure::Type(format!("expected an array of binary or string, got {other}"))),
    }
}

fn push<T: AsRef<[u8]>>(inference: &mut Inference, values: impl Iterator<Item = Option<T>>) -> Result<(), Failure> {
    for value in values {
        inference.push(value.as_ref().map(AsRef::as_ref)).map_err(Failure::Bad)?;
    }
    Ok(())
}
