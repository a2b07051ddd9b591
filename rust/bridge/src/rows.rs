//! Rows of a batch as Python's records, one by one.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Int8Array, Int32Array, Int64Array, ListArray, RecordBatch,
    StringArray, TimestampMillisecondArray,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::arrow_ffi::{self, Input};
use crate::gate;

/// Keys or values.
enum Blobs {
    Copied(BinaryArray),
    Viewed(BinaryViewArray),
}

impl Blobs {
    fn of(column: &ArrayRef) -> Option<Self> {
        let copied = column.as_binary_opt::<i32>().cloned().map(Self::Copied);
        copied.or_else(|| column.as_binary_view_opt().cloned().map(Self::Viewed))
    }

    fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Copied(column) => column.is_valid(row).then(|| column.value(row)),
            Self::Viewed(column) => column.is_valid(row).then(|| column.value(row)),
        }
    }
}

/// Columns of a consumer's batch.
struct Columns {
    rows: usize,
    key: Blobs,
    value: Blobs,
    topic: Int32Array,
    partition: Int32Array,
    offset: Int64Array,
    timestamp: TimestampMillisecondArray,
    timestamp_type: Int8Array,
    headers: Option<(ListArray, StringArray, BinaryArray)>,
}

impl Columns {
    /// The columns, and the names of topics.
    fn of(batch: &RecordBatch) -> Option<(Self, StringArray)> {
        let column = |name| batch.column_by_name(name);
        let topics = column("topic")?.as_dictionary_opt::<Int32Type>()?;
        let headers = match column("headers") {
            None => None,
            Some(headers) => {
                let list = headers.as_list_opt::<i32>()?.clone();
                let pairs = list.values().as_struct_opt()?;
                let names = pairs.column_by_name("key")?.as_string_opt::<i32>()?.clone();
                let values = pairs.column_by_name("value")?.as_binary_opt::<i32>()?.clone();
                Some((list, names, values))
            }
        };
        let columns = Self {
            rows: batch.num_rows(),
            key: Blobs::of(column("key")?)?,
            value: Blobs::of(column("value")?)?,
            topic: topics.keys().clone(),
            partition: column("partition")?.as_primitive_opt::<Int32Type>()?.clone(),
            offset: column("offset")?.as_primitive_opt::<Int64Type>()?.clone(),
            timestamp: column("timestamp")?.as_primitive_opt::<TimestampMillisecondType>()?.clone(),
            timestamp_type: column("timestamp_type")?.as_primitive_opt::<Int8Type>()?.clone(),
            headers,
        };
        Some((columns, topics.values().as_string_opt::<i32>()?.clone()))
    }
}

/// The records of a batch, made as they are asked for.
#[pyclass(frozen, module = "samsarrow._core")]
pub struct Rows {
    columns: Columns,
    topics: Vec<Py<PyString>>,
    at: AtomicUsize,
    /// `ConsumerRecord`, and what makes tuples of it.
    class: Py<PyAny>,
    make: Py<PyAny>,
}

#[pymethods]
impl Rows {
    #[new]
    fn new(py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<Self> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let _pass = gate::enter(py);
        let class = || Ok::<_, PyErr>(py.import("samsarrow.types")?.getattr("ConsumerRecord")?.unbind());
        let make = || Ok::<_, PyErr>(py.get_type::<PyTuple>().getattr("__new__")?.unbind());
        let (class, make) = (CLASS.get_or_try_init(py, class)?, MAKE.get_or_try_init(py, make)?);
        let found = match arrow_ffi::from_python(batch)? {
            Input::Batch(batch) => Columns::of(&batch),
            Input::Stream(_) | Input::Reader(_) => None,
        };
        let other = || PyTypeError::new_err("records are made of batches that a consumer gave");
        let (columns, topics) = found.ok_or_else(other)?;
        let topics = topics.iter().map(|name| PyString::new(py, name.unwrap_or_default()).unbind()).collect();
        Ok(Self { columns, topics, at: AtomicUsize::new(0), class: class.clone_ref(py), make: make.clone_ref(py) })
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let row = self.at.fetch_add(1, Ordering::Relaxed);
        let columns = &self.columns;
        if row >= columns.rows {
            self.at.store(columns.rows, Ordering::Relaxed);
            return Ok(None);
        }
        let bytes = |found: Option<&[u8]>| found.map(|found| PyBytes::new(py, found));
        let headers = PyList::empty(py);
        if let Some((list, names, values)) = columns.headers.as_ref().filter(|(list, ..)| list.is_valid(row)) {
            let offsets = list.value_offsets();
            let ends = offsets.get(row).zip(offsets.get(row + 1)).map_or((0, 0), |(from, to)| (*from, *to));
            for at in ends.0 as usize..ends.1 as usize {
                let value = bytes(values.is_valid(at).then(|| values.value(at)));
                headers.append((names.value(at), value))?;
            }
        }
        let topic = columns.topic.is_valid(row).then(|| columns.topic.value(row) as usize);
        let fields = (
            topic.and_then(|topic| self.topics.get(topic)),
            columns.partition.value(row),
            columns.offset.value(row),
            columns.timestamp.is_valid(row).then(|| columns.timestamp.value(row)),
            columns.timestamp_type.is_valid(row).then(|| columns.timestamp_type.value(row)),
            bytes(columns.key.get(row)),
            bytes(columns.value.get(row)),
            headers,
        );
        self.make.bind(py).call1((&self.class, fields)).map(Some)
    }

    /// Rows that are left.
    fn __length_hint__(&self) -> usize {
        self.columns.rows.saturating_sub(self.at.load(Ordering::Relaxed))
    }
}
