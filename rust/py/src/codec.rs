//! Encoding and decoding of record batches.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, LargeBinaryArray, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use samsarrow_arrow::decode::{DecodeOptions, decode_batches as decode};
use samsarrow_arrow::digest;
use samsarrow_arrow::encode::{Columns, EncodeError, EncodeOptions, encode_batches as encode};
use samsarrow_arrow::layout::Layout;
use samsarrow_arrow::value_encoding::{FieldRules, ValueColumns, ValueFormat, ValueWriter};
use samsarrow_bridge::arrow_ffi;
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::interpreter_guard;
use samsarrow_client::error::Error;
use samsarrow_values::json::{is_full_time, is_json, is_omitted};
use samsarrow_wire::compression::Codec;

use crate::encoder::BadRow;
use crate::values::ValueDecoder;

/// Maximum number of bytes that [`write_values`] returns. Only the last value may exceed this limit.
const MAX_WRITTEN: usize = 1024 * 1024;

/// See `samsarrow.decode_batches`.
#[pyfunction]
#[pyo3(signature = (data, layout, include_headers, include_control, check_crcs))]
pub(crate) fn decode_batches<'py>(
    py: Python<'py>,
    data: PyBackedBytes,
    layout: &str,
    include_headers: bool,
    include_control: bool,
    check_crcs: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let layout = layout_of(py, layout)?;
    let options = DecodeOptions { layout, include_headers, include_control, check_crcs, ..Default::default() };
    // The bytes are not copied, so view columns refer to Python's buffer.
    let data = Bytes::from_owner(data);
    let batch: RecordBatch = interpreter_guard::detach(py, || decode(data, options)).map_err(|error| {
        let (text, corrupt) = (error.to_string(), error.cause.is_corrupt());
        to_py(py, &if corrupt { Error::corrupt(text) } else { Error::configuration(text) })
    })?;
    arrow_ffi::to_pyarrow(py, &batch)
}

/// Returns the layout with this name.
pub(crate) fn layout_of(py: Python<'_>, name: &str) -> PyResult<Layout> {
    match name {
        "binary" => Ok(Layout::Binary),
        "view" => Ok(Layout::View),
        other => Err(to_py(py, &Error::configuration(format!("layout must be binary or view, not {other:?}")))),
    }
}

/// See `samsarrow.encode_batches`.
#[pyfunction]
#[pyo3(signature = (data, key, value, headers, timestamp, compression, level, magic, base_offset, batch_size))]
#[allow(clippy::too_many_arguments, reason = "the keyword arguments of the Python function")]
pub(crate) fn encode_batches<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    key: Option<String>,
    value: Option<String>,
    headers: Option<String>,
    timestamp: Option<String>,
    compression: &str,
    level: Option<i32>,
    magic: i8,
    base_offset: i64,
    batch_size: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let codec = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd]
        .into_iter()
        .find(|codec| format!("{codec:?}").eq_ignore_ascii_case(compression))
        .ok_or_else(|| {
            let text = format!("compression must be none, gzip, snappy, lz4 or zstd, not {compression:?}");
            to_py(py, &Error::configuration(text))
        })?;
    let columns = Columns { key, value, headers, timestamp, partition: None };
    let mut options = EncodeOptions { codec, level, magic, base_offset, batch_size, ..Default::default() };
    let mut input = arrow_ffi::from_python(data)?;
    let mut parts = Vec::new();
    while let Some(batch) = input.next(py)? {
        check_time_zone(py, &batch.schema(), columns.timestamp.as_deref())?;
        let encoded = interpreter_guard::detach(py, || encode(&batch, &columns, &options));
        parts.push(encoded.map_err(|error| to_py(py, &Error::configuration(error.to_string())))?);
        options.base_offset += batch.num_rows() as i64;
    }
    PyBytes::new_with(py, parts.iter().map(Vec::len).sum(), |mut out| {
        for part in &parts {
            out.write_all(part)?;
        }
        Ok(())
    })
}

/// Returns a digest of rows that does not depend on their order. If `topic` is None, the topic of each row is taken
/// from the column `topic`.
#[pyfunction]
#[pyo3(signature = (data, topic))]
pub(crate) fn digest_rows(py: Python<'_>, data: &Bound<'_, PyAny>, topic: Option<&str>) -> PyResult<u64> {
    let mut input = arrow_ffi::from_python(data)?;
    let mut sum: u64 = 0;
    while let Some(batch) = input.next(py)? {
        let rows = interpreter_guard::detach(py, || digest(&batch, topic));
        sum = sum.wrapping_add(rows.map_err(|error| to_py(py, &Error::configuration(error.to_string())))?);
    }
    Ok(sum)
}

/// One column name, or a list of column names.
#[derive(FromPyObject)]
pub(crate) enum ColumnNames {
    /// A single name.
    One(String),
    /// Several names.
    Several(Vec<String>),
}

impl ColumnNames {
    /// Returns the name, or `None` for a list of names.
    pub(crate) fn into_single(self) -> Option<String> {
        match self {
            ColumnNames::One(name) => Some(name),
            ColumnNames::Several(_) => None,
        }
    }
}

/// Rejects a column of timestamps without a time zone, which name no moments.
pub(crate) fn check_time_zone(py: Python<'_>, schema: &Schema, column: Option<&str>) -> PyResult<()> {
    let field = column.and_then(|name| schema.field_with_name(name).ok());
    let Some(DataType::Timestamp(unit, None)) = field.map(|field| field.data_type()) else { return Ok(()) };
    let unit = match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    let text = format!(
        "column {} has timestamps without a time zone, which name no moments: if they are in UTC, cast the column to \
         pa.timestamp(\"{unit}\", \"UTC\"), otherwise use pyarrow.compute.assume_timezone",
        column.unwrap_or_default()
    );
    Err(to_py(py, &Error::configuration(text)))
}

/// Returns the value format with this name.
pub(crate) fn format_of(py: Python<'_>, name: &str) -> PyResult<ValueFormat> {
    ValueFormat::from_name(name).ok_or_else(|| {
        to_py(py, &Error::configuration(format!("value_format must be json or ipc, or left out, not {name:?}")))
    })
}

/// Returns the columns that form the value. By default, this is the column `value`.
pub(crate) fn value_columns(py: Python<'_>, names: Option<ColumnNames>) -> PyResult<ValueColumns> {
    match names {
        None => Ok(ValueColumns::One("value".to_owned())),
        Some(ColumnNames::One(name)) => Ok(ValueColumns::One(name)),
        Some(ColumnNames::Several(names)) if names.is_empty() => {
            Err(to_py(py, &Error::configuration("value names no columns: there is nothing to send")))
        }
        Some(ColumnNames::Several(names)) => Ok(ValueColumns::Struct(names)),
    }
}

/// Writes the values of the first rows of a batch, up to [`MAX_WRITTEN`] bytes. Returns a batch with a single column,
/// whose values follow the JSON schema of `reader`. If a value cannot be written, returns its row instead.
#[pyfunction]
#[pyo3(signature = (data, value, value_format, reader=None))]
pub(crate) fn write_values<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    value: Option<ColumnNames>,
    value_format: &str,
    reader: Option<&ValueDecoder>,
) -> PyResult<(Option<Bound<'py, PyAny>>, Option<BadRow>)> {
    let (format, value) = (format_of(py, value_format)?, value_columns(py, value)?);
    let mut input = arrow_ffi::from_python(data)?;
    let batch = input.next(py)?;
    let written = interpreter_guard::detach(py, || {
        let Some(batch) = batch else { return Ok(Ok(None)) };
        let writer = ValueWriter::new(&batch, &value, format).and_then(|writer| {
            match reader.and_then(ValueDecoder::json_field) {
                Some(schema) => writer.following(schema, FieldRules { is_omitted, is_json, is_full_time }),
                None => Ok(writer),
            }
        });
        let mut writer = writer.map_err(|error| error.to_string())?;
        match writer.next(MAX_WRITTEN) {
            Ok(written) => Ok(Ok(written)),
            Err(EncodeError::Value { row, path, what: reason }) => Ok(Err((row, path, reason))),
            Err(error) => Err(error.to_string()),
        }
    });
    let written = written.map_err(|text: String| to_py(py, &Error::configuration(text)))?;
    let written = match written {
        Ok(written) => written,
        Err((row, path, reason)) => return Ok((None, Some((row, None, path, reason, None)))),
    };
    let values: ArrayRef = Arc::new(written.map_or_else(|| LargeBinaryArray::from_iter_values([b""; 0]), |(_, v)| v));
    let batch = RecordBatch::try_from_iter([("value", values)]);
    let batch = batch.map_err(|error| to_py(py, &Error::configuration(error.to_string())))?;
    Ok((Some(arrow_ffi::to_pyarrow(py, &batch)?), None))
}

/// Returns a batch without rows that has the same columns as the Arrow data. pyarrow cannot create such a batch for
/// some types.
#[pyfunction]
pub(crate) fn empty_batch<'py>(py: Python<'py>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    arrow_ffi::to_pyarrow(py, &RecordBatch::new_empty(arrow_ffi::schema_of(data)?))
}
