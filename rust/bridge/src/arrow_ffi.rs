//! Import and export of Arrow data through the Arrow C data interface in PyCapsules. This is the only file of this
//! crate with `unsafe` code.
#![allow(unsafe_code, reason = "the Arrow C data interface is made of raw structs")]

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayReader as _, RecordBatch, RecordBatchOptions, StructArray, UInt8Array};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use bytes::Bytes;
use pyo3::exceptions::{PyStopIteration, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyTuple};
use samsarrow_client::error::Error;

use crate::error::to_py;
use crate::interpreter_guard;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// Returns a `pyarrow.RecordBatch` that shares the memory of `batch` and has the metadata of its schema.
pub fn to_pyarrow<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Bound<'py, PyAny>> {
    static IMPORT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let _guard = interpreter_guard::acquire(py);
    let import = IMPORT.get_or_try_init(py, || {
        py.import("pyarrow")?.getattr("RecordBatch")?.getattr("_import_from_c_capsule").map(Bound::unbind)
    })?;
    let data = StructArray::from(batch.clone()).into_data();
    let array = FFI_ArrowArray::new(&data);
    let schema = FFI_ArrowSchema::try_from(batch.schema_ref().as_ref()).map_err(import_error)?;
    // The importer moves the structs out of the capsules and marks them as released; otherwise the capsules free them.
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    import.bind(py).call1((schema, array))
}

/// Batches of any object that supports the Arrow PyCapsule interface, such as a record batch, a table, a reader or a
/// data frame.
pub enum Input {
    /// One batch.
    Batch(RecordBatch),
    /// Several batches, imported one at a time.
    Stream(Stream),
    /// A `pyarrow.RecordBatchReader`, which is read through Python, because a stream of the C interface would reduce
    /// its exceptions to text.
    Reader(Py<PyAny>),
}

/// Batches of a stream of the Arrow C data interface.
pub struct Stream {
    arrays: ArrayStreamReader,
    schema: SchemaRef,
}

impl Stream {
    fn new(stream: FFI_ArrowArrayStream) -> Result<Self, ArrowError> {
        let arrays = ArrayStreamReader::try_new(stream)?;
        let field = arrays.field();
        let DataType::Struct(fields) = field.data_type() else {
            let kind = field.data_type();
            return Err(ArrowError::SchemaError(format!("expected record batches or a table, got a stream of {kind}")));
        };
        let schema = Arc::new(Schema::new_with_metadata(fields.clone(), field.metadata().clone()));
        Ok(Self { arrays, schema })
    }

    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        let array = match self.arrays.next()? {
            Ok(array) => array,
            Err(error) => return Some(Err(error)),
        };
        Some(record_batch(array.as_struct(), &self.schema))
    }
}

/// Returns the columns of a struct array as a batch. Rejects null rows, because a batch cannot represent them and their
/// columns would be sent as records.
fn record_batch(rows: &StructArray, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if rows.null_count() > 0 {
        let text = "expected record batches or a table, got a struct array with null rows";
        return Err(ArrowError::InvalidArgumentError(text.to_owned()));
    }
    let length = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), rows.columns().to_vec(), &length)
}

impl Input {
    /// Returns the next batch, or `None` at the end. This may run Python code, which may use any client, so it must be
    /// called outside of the runtime.
    ///
    /// # Errors
    /// Raises the exception that a reader raises, or `ConfigurationError` if a stream fails.
    pub fn next(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let _guard = interpreter_guard::acquire(py);
        match self {
            Self::Batch(batch) => {
                let taken = std::mem::replace(batch, RecordBatch::new_empty(batch.schema()));
                Ok((taken.num_rows() > 0).then_some(taken))
            }
            Self::Stream(stream) => {
                let unread = |error| Error::configuration(format!("Arrow data cannot be read: {error}"));
                let batch = interpreter_guard::detach_reentrant(py, || stream.next()).transpose();
                batch.map_err(|error| to_py(py, &unread(error)))
            }
            Self::Reader(reader) => match reader.bind(py).call_method0(pyo3::intern!(py, "read_next_batch")) {
                Ok(batch) => array(&batch).map(Some),
                Err(error) if error.is_instance_of::<PyStopIteration>(py) => Ok(None),
                Err(error) => Err(error),
            },
        }
    }
}

/// Imports Arrow data from a Python object.
///
/// # Errors
/// Raises `TypeError` if the object is not Arrow data with columns.
pub fn from_python(data: &Bound<'_, PyAny>) -> PyResult<Input> {
    let _guard = interpreter_guard::acquire(data.py());
    if data.is_instance(reader_class(data.py())?)? {
        return Ok(Input::Reader(data.clone().unbind()));
    }
    // Read an object that supports only streams batch by batch. An object that also supports arrays, such as a record
    // batch, is imported as a single batch.
    if data.hasattr("__arrow_c_stream__")? && !data.hasattr("__arrow_c_array__")? {
        let capsule = data.call_method0("__arrow_c_stream__")?;
        let pointer = pointer::<FFI_ArrowArrayStream>(&capsule, STREAM)?;
        // SAFETY: the capsule's name was checked, so the capsule holds either a valid stream or one that was already
        // consumed. The stream is moved out, and a released stream is left behind, which the capsule's destructor skips
        // (Arrow PyCapsule interface).
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
        unconsumed(stream.release().is_some(), "__arrow_c_stream__")?;
        // Creating the reader requests the schema, which may run Python code.
        let reader = interpreter_guard::detach_reentrant(data.py(), || Stream::new(stream));
        return Ok(Input::Stream(reader.map_err(import_error)?));
    }
    if data.hasattr("__arrow_c_array__")? {
        return Ok(Input::Batch(array(data)?));
    }
    let kind = data.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "expected Arrow data (a pyarrow RecordBatch or Table, or anything with __arrow_c_array__ or __arrow_c_stream__), got {kind}"
    )))
}

/// Imports a batch from an object with `__arrow_c_array__`.
fn array(data: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let pair = data.call_method0("__arrow_c_array__")?;
    let pair = pair.cast::<PyTuple>()?;
    let schema = pointer::<FFI_ArrowSchema>(&pair.get_item(0)?, SCHEMA)?;
    let array = pointer::<FFI_ArrowArray>(&pair.get_item(1)?, ARRAY)?;
    // SAFETY: both names were checked, so both pointers refer to valid structs that live as long as their capsules. The
    // array is moved out, and an empty array is left behind, as the interface requires.
    let (array, schema) = unsafe { (FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    unconsumed(!array.is_released() && schema.release().is_some(), "__arrow_c_array__")?;
    // Ignore metadata that is not UTF-8: such metadata cannot contain row positions, and nothing else is read from it.
    let metadata = schema.metadata().unwrap_or_default();
    // SAFETY: neither the array nor the schema was released, and the schema is only read.
    let imported = unsafe { from_ffi(array, schema) };
    let imported = imported.map_err(import_error)?;
    let DataType::Struct(fields) = imported.data_type() else {
        let kind = imported.data_type();
        return Err(PyTypeError::new_err(format!("expected a record batch or table, got an Arrow array of {kind}")));
    };
    let schema = Arc::new(Schema::new_with_metadata(fields.clone(), metadata));
    let batch = record_batch(&StructArray::from(imported), &schema);
    batch.map_err(|error| PyTypeError::new_err(error.to_string()))
}

/// Returns the schema of Arrow data without reading any batch.
///
/// # Errors
/// Fails for the same reasons as [`from_python`].
pub fn schema_of(data: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    Ok(match from_python(data)? {
        Input::Batch(batch) => batch.schema(),
        Input::Stream(reader) => reader.schema,
        Input::Reader(reader) => {
            let reader = reader.bind(data.py()).getattr("schema")?;
            let capsule = reader.call_method0("__arrow_c_schema__")?;
            let schema = pointer::<FFI_ArrowSchema>(&capsule, SCHEMA)?;
            // SAFETY: the capsule's name was checked, the capsule outlives this block, and the schema is only read.
            let schema = unsafe { schema.as_ref() };
            Arc::new(Schema::try_from(schema).map_err(import_error)?)
        }
    })
}

fn reader_class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class =
        CLASS.get_or_try_init(py, || Ok::<_, PyErr>(py.import("pyarrow")?.getattr("RecordBatchReader")?.unbind()));
    Ok(class?.bind(py))
}

/// Returns the bytes of a record batch with one column. The bytes are not copied and remain owned by the exporter.
///
/// # Errors
/// Raises `TypeError` unless the data is one column of unsigned bytes without nulls.
pub fn bytes_from_python(data: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    struct Owner(Buffer);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            self.0.as_slice()
        }
    }
    if let Input::Batch(batch) = from_python(data)?
        && let [column] = batch.columns()
        && let Some(column) = column.as_any().downcast_ref::<UInt8Array>()
        && column.null_count() == 0
    {
        return Ok(Bytes::from_owner(Owner(column.values().inner().clone())));
    }
    Err(PyTypeError::new_err("expected a record batch with one column of uint8"))
}

/// Rejects a capsule whose content was already moved out, because the consumer may have freed the memory.
fn unconsumed(whole: bool, method: &str) -> PyResult<()> {
    if whole {
        return Ok(());
    }
    let text = format!("{method}() returned a capsule that was consumed before: it must return a new one at each call");
    Err(PyTypeError::new_err(text))
}

fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<NonNull<T>> {
    Ok(capsule.cast::<PyCapsule>()?.pointer_checked(Some(name))?.cast())
}

fn import_error(error: ArrowError) -> PyErr {
    PyValueError::new_err(format!("Arrow data cannot be exchanged: {error}"))
}
