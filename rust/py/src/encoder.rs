//! Typed columns into values, without a broker.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use samsarrow_bridge::arrow_ffi::{self, Input};
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::gate;
use samsarrow_client::error::Error;
use samsarrow_values::avro::{Schema, derive};
use samsarrow_values::primitive_serdes::Plain;
use samsarrow_values::{EncodeError, Encoder, Framing, SchemaError, json, proto, with_header};

use crate::value_options::File;

/// Row, nothing, field, reason and nothing, as what cannot be decoded has a schema in these places.
pub(crate) type Bad = (usize, Option<u64>, String, String, Option<String>);

/// Batches of one column, or the first row that cannot be written.
type Encoded<'py> = (Option<Vec<Bound<'py, PyAny>>>, Option<Bad>);

/// See `samsarrow.values`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct ValueEncoder {
    encoder: Encoder,
}

#[pymethods]
impl ValueEncoder {
    /// For Avro values of columns like the one in a batch.
    #[staticmethod]
    #[pyo3(signature = (schema, needed, like, framing, schema_id))]
    fn avro(
        py: Python<'_>,
        schema: &str,
        needed: Vec<String>,
        like: &Bound<'_, PyAny>,
        framing: &str,
        schema_id: Option<u64>,
    ) -> PyResult<Self> {
        let column = column(like)?;
        let Some(framing) = Framing::from_name(framing) else {
            return Err(to_py(py, &Error::configuration(format!("there is no framing {framing:?}"))));
        };
        let made = || Encoder::avro(&Schema::parse_with(schema, &needed)?, column.data_type(), framing, schema_id);
        made().map(|encoder| Self { encoder }).map_err(|error| refused(py, &error))
    }

    /// For Protobuf messages of columns like the one in a batch.
    #[staticmethod]
    #[pyo3(signature = (schema, needed, message, like, framing, schema_id))]
    fn protobuf(
        py: Python<'_>,
        schema: File,
        needed: Vec<String>,
        message: Option<&str>,
        like: &Bound<'_, PyAny>,
        framing: &str,
        schema_id: Option<u64>,
    ) -> PyResult<Self> {
        let column = column(like)?;
        let Some(framing) = Framing::from_name(framing) else {
            return Err(to_py(py, &Error::configuration(format!("there is no framing {framing:?}"))));
        };
        let made = || {
            let writer = proto::Writer::new(&schema.parse(&needed)?, message)?;
            Encoder::protobuf(writer, column.data_type(), framing, schema_id)
        };
        made().map(|encoder| Self { encoder }).map_err(|error| refused(py, &error))
    }

    /// For values of one of Kafka's own types.
    #[staticmethod]
    fn plain(py: Python<'_>, name: &str, like: &Bound<'_, PyAny>) -> PyResult<Self> {
        let column = column(like)?;
        let Some(plain) = Plain::from_name(name) else {
            let names = "string, short, int, long, float, double, boolean or uuid";
            let text = format!("a format must be Avro(…), Json(…), Protobuf(…), or {names}, not {name:?}");
            return Err(to_py(py, &Error::configuration(text)));
        };
        let made = Encoder::plain(plain, column.data_type());
        made.map(|encoder| Self { encoder }).map_err(|error| refused(py, &error))
    }

    /// What follows the schema's id in a header.
    #[getter]
    fn indexes(&self) -> &[u8] {
        self.encoder.indexes()
    }

    /// The column of a batch as values; or the first row that cannot be written.
    fn encode<'py>(&self, py: Python<'py>, batch: &Bound<'py, PyAny>) -> PyResult<Encoded<'py>> {
        let column = column(batch)?;
        match gate::detach(py, || self.encoder.encode(&column)) {
            Ok(arrays) => Ok((Some(arrays.into_iter().map(|array| given(py, array)).collect::<PyResult<_>>()?), None)),
            Err(EncodeError::Bad(bad)) => Ok((None, Some((bad.row, None, bad.path, bad.reason, None)))),
            Err(EncodeError::Schema(error)) => Err(refused(py, &error)),
        }
    }
}

/// The text of the schema of a batch's column, whose record has this name.
#[pyfunction]
pub(crate) fn avro_schema(py: Python<'_>, like: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    derive(column(like)?.data_type(), name).map_err(|error| refused(py, &error))
}

/// Returns whether `send_batch` sends a batch's column as the bytes that it has, without a format.
#[pyfunction]
pub(crate) fn is_bytes(like: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(samsarrow_arrow::is_bytes(column(like)?.data_type()))
}

/// The full name of a schema, if it has one.
#[pyfunction]
pub(crate) fn avro_name(py: Python<'_>, schema: &str, needed: Vec<String>) -> PyResult<Option<String>> {
    let schema = Schema::parse_with(schema, &needed).map_err(|error| refused(py, &error))?;
    Ok(schema.name().map(str::to_owned))
}

/// The first row of a batch's column with a number that JSON does not have.
#[pyfunction]
pub(crate) fn json_refusal(py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<Option<Bad>> {
    let column = column(batch)?;
    let checked = gate::detach(py, || json::check_finite(&column));
    Ok(checked.err().map(|bad| (bad.row, None, bad.path, bad.reason, None)))
}

/// The column `headers` of a batch, and the header that names a schema for rows whose column `value` is not null.
#[pyfunction]
pub(crate) fn with_schema_header<'py>(
    py: Python<'py>,
    batch: &Bound<'py, PyAny>,
    name: &str,
    value: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    let Input::Batch(batch) = arrow_ffi::from_python(batch)? else {
        return Err(PyTypeError::new_err("expected a record batch"));
    };
    let missing = || PyTypeError::new_err("there is no column of values");
    let (given, written) = (batch.column_by_name("headers"), batch.column_by_name("value").ok_or_else(missing)?);
    let headers = gate::detach(py, || with_header(given, written, name, value)).map_err(PyTypeError::new_err)?;
    let batch = RecordBatch::try_from_iter_with_nullable([("headers", headers, true)]);
    arrow_ffi::to_pyarrow(py, &batch.map_err(|error| to_py(py, &Error::configuration(error.to_string())))?)
}

/// The one column of a batch, which may have no rows.
fn column(batch: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    match arrow_ffi::from_python(batch)? {
        Input::Batch(batch) if batch.num_columns() == 1 => Ok(Arc::clone(batch.column(0))),
        _ => Err(PyTypeError::new_err("expected a record batch of one column")),
    }
}

fn given(py: Python<'_>, array: BinaryArray) -> PyResult<Bound<'_, PyAny>> {
    let array: ArrayRef = Arc::new(array);
    let batch = RecordBatch::try_from_iter_with_nullable([("value", array, true)]);
    arrow_ffi::to_pyarrow(py, &batch.map_err(|error| to_py(py, &Error::configuration(error.to_string())))?)
}

fn refused(py: Python<'_>, error: &SchemaError) -> PyErr {
    to_py(py, &Error::configuration(error.to_string()))
}
