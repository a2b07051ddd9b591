//! Encoding of typed columns as values.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use samsarrow_bridge::arrow_ffi::{self, Input};
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::interpreter_guard;
use samsarrow_client::error::Error;
use samsarrow_values::avro::{Schema, derive};
use samsarrow_values::primitive_serdes::Plain;
use samsarrow_values::{EncodeError, Encoder, Framing, SchemaError, json, proto, with_header};

use crate::value_options::{ProtobufSchema, PySchemaId};

/// Row, None, field, reason and None. This is the layout of the decoder's bad values, which have a schema id and a
/// schema description instead of None.
pub(crate) type BadRow = (usize, Option<u64>, String, String, Option<String>);

/// Batches with one column, or the first row that cannot be encoded.
pub(crate) type Encoded<'py> = (Option<Vec<Bound<'py, PyAny>>>, Option<BadRow>);

/// See `samsarrow.values`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct ValueEncoder {
    encoder: Encoder,
}

#[pymethods]
impl ValueEncoder {
    /// Creates an encoder that encodes a column to Avro values. `like` is a batch whose column has the same type.
    #[staticmethod]
    #[pyo3(signature = (schema, needed, like, framing, schema_id))]
    fn avro(
        py: Python<'_>,
        schema: &str,
        needed: Vec<String>,
        like: &Bound<'_, PyAny>,
        framing: &str,
        schema_id: Option<PySchemaId>,
    ) -> PyResult<Self> {
        let column = column(like)?;
        let Some(framing) = Framing::from_name(framing) else {
            return Err(to_py(py, &Error::configuration(format!("unknown framing {framing:?}"))));
        };
        let schema_id = schema_id.map(PySchemaId::into_schema_id);
        let build = || Encoder::avro(&Schema::parse_with(schema, &needed)?, column.data_type(), framing, schema_id);
        build().map(|encoder| Self { encoder }).map_err(|error| schema_error(py, &error))
    }

    /// Creates an encoder that encodes a column to Protobuf values. `like` is a batch whose column has the same type.
    #[staticmethod]
    #[pyo3(signature = (schema, needed, message, like, framing, schema_id))]
    fn protobuf(
        py: Python<'_>,
        schema: ProtobufSchema,
        needed: Vec<String>,
        message: Option<&str>,
        like: &Bound<'_, PyAny>,
        framing: &str,
        schema_id: Option<PySchemaId>,
    ) -> PyResult<Self> {
        let column = column(like)?;
        let Some(framing) = Framing::from_name(framing) else {
            return Err(to_py(py, &Error::configuration(format!("unknown framing {framing:?}"))));
        };
        let schema_id = schema_id.map(PySchemaId::into_schema_id);
        let build = || {
            let writer = proto::Writer::new(&schema.parse(&needed)?, message)?;
            Encoder::protobuf(writer, column.data_type(), framing, schema_id)
        };
        build().map(|encoder| Self { encoder }).map_err(|error| schema_error(py, &error))
    }

    /// Creates an encoder for one of Kafka's primitive serdes.
    #[staticmethod]
    fn plain(py: Python<'_>, name: &str, like: &Bound<'_, PyAny>) -> PyResult<Self> {
        let column = column(like)?;
        let Some(plain) = Plain::from_name(name) else {
            let names = "string, short, int, long, float, double, boolean or uuid";
            let text = format!("a format must be Avro(…), Json(…), Protobuf(…), or {names}, not {name:?}");
            return Err(to_py(py, &Error::configuration(text)));
        };
        let encoder = Encoder::plain(plain, column.data_type());
        encoder.map(|encoder| Self { encoder }).map_err(|error| schema_error(py, &error))
    }

    /// Returns the message indexes, which follow the schema id in a header.
    #[getter]
    fn indexes(&self) -> &[u8] {
        self.encoder.indexes()
    }

    /// Encodes the column of a batch. If a row cannot be encoded, returns the first such row.
    fn encode<'py>(&self, py: Python<'py>, batch: &Bound<'py, PyAny>) -> PyResult<Encoded<'py>> {
        let column = column(batch)?;
        to_batches(py, interpreter_guard::detach(py, || self.encoder.encode(&column)))
    }
}

/// Returns the Avro schema for the type of a batch's column, as text. `name` is the name of the record.
#[pyfunction]
pub(crate) fn avro_schema(py: Python<'_>, like: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    derive(column(like)?.data_type(), name).map_err(|error| schema_error(py, &error))
}

/// Returns true if the type of a batch's column is bytes, which `send_batch` sends without a value format.
#[pyfunction]
pub(crate) fn is_bytes(like: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(samsarrow_arrow::is_bytes(column(like)?.data_type()))
}

/// Returns the full name of a schema, or None if it has no name.
#[pyfunction]
pub(crate) fn avro_name(py: Python<'_>, schema: &str, needed: Vec<String>) -> PyResult<Option<String>> {
    let schema = Schema::parse_with(schema, &needed).map_err(|error| schema_error(py, &error))?;
    Ok(schema.name().map(str::to_owned))
}

/// Returns the first row of a batch's column that contains a number that JSON cannot represent.
#[pyfunction]
pub(crate) fn json_non_finite(py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<Option<BadRow>> {
    let column = column(batch)?;
    let checked = interpreter_guard::detach(py, || json::check_finite(&column));
    Ok(checked.err().map(|bad| (bad.row, None, bad.path, bad.reason, None)))
}

/// Returns the column `headers` of a batch. A schema header is added to all rows whose `value` is not null.
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
    let (headers, values) = (batch.column_by_name("headers"), batch.column_by_name("value").ok_or_else(missing)?);
    let headers =
        interpreter_guard::detach(py, || with_header(headers, values, name, value)).map_err(PyTypeError::new_err)?;
    let batch = RecordBatch::try_from_iter_with_nullable([("headers", headers, true)]);
    arrow_ffi::to_pyarrow(py, &batch.map_err(|error| to_py(py, &Error::configuration(error.to_string())))?)
}

/// Returns the only column of a batch, which may have no rows.
pub(crate) fn column(batch: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    match arrow_ffi::from_python(batch)? {
        Input::Batch(batch) if batch.num_columns() == 1 => Ok(Arc::clone(batch.column(0))),
        _ => Err(PyTypeError::new_err("expected a record batch of one column")),
    }
}

/// Converts the result of an encoder to batches, or to the first row that cannot be encoded.
pub(crate) fn to_batches(py: Python<'_>, encoded: Result<Vec<BinaryArray>, EncodeError>) -> PyResult<Encoded<'_>> {
    match encoded {
        Ok(arrays) => Ok((Some(arrays.into_iter().map(|array| to_batch(py, array)).collect::<PyResult<_>>()?), None)),
        Err(EncodeError::Bad(bad)) => Ok((None, Some((bad.row, None, bad.path, bad.reason, None)))),
        Err(EncodeError::Schema(error)) => Err(schema_error(py, &error)),
    }
}

fn to_batch(py: Python<'_>, array: BinaryArray) -> PyResult<Bound<'_, PyAny>> {
    let array: ArrayRef = Arc::new(array);
    let batch = RecordBatch::try_from_iter_with_nullable([("value", array, true)]);
    arrow_ffi::to_pyarrow(py, &batch.map_err(|error| to_py(py, &Error::configuration(error.to_string())))?)
}

fn schema_error(py: Python<'_>, error: &SchemaError) -> PyErr {
    to_py(py, &Error::configuration(error.to_string()))
}
