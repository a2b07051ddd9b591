//! Iterates over the rows of a batch as `ConsumerRecord` objects.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Int8Array, Int16Array, Int32Array, Int64Array, ListArray,
    RecordBatch, StringArray, TimestampMillisecondArray,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::arrow_ffi::{self, Input};
use crate::interpreter_guard;

/// A column of keys or values.
enum BytesColumn {
    Binary(BinaryArray),
    View(BinaryViewArray),
}

impl BytesColumn {
    fn from_column(column: &ArrayRef) -> Option<Self> {
        let binary = column.as_binary_opt::<i32>().cloned().map(Self::Binary);
        binary.or_else(|| column.as_binary_view_opt().cloned().map(Self::View))
    }

    fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Binary(column) => column.is_valid(row).then(|| column.value(row)),
            Self::View(column) => column.is_valid(row).then(|| column.value(row)),
        }
    }
}

/// The columns of a batch that a consumer returned.
struct Columns {
    rows: usize,
    key: BytesColumn,
    value: BytesColumn,
    topic: Int32Array,
    partition: Int32Array,
    offset: Int64Array,
    timestamp: TimestampMillisecondArray,
    timestamp_type: Int8Array,
    headers: Option<(ListArray, StringArray, BinaryArray)>,
    leader_epoch: Option<Int32Array>,
    delivery_count: Option<Int16Array>,
}

impl Columns {
    /// Returns the columns and the topic names, or `None` if a column is missing or has another type.
    fn from_batch(batch: &RecordBatch) -> Option<(Self, StringArray)> {
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
            key: BytesColumn::from_column(column("key")?)?,
            value: BytesColumn::from_column(column("value")?)?,
            topic: topics.keys().clone(),
            partition: column("partition")?.as_primitive_opt::<Int32Type>()?.clone(),
            offset: column("offset")?.as_primitive_opt::<Int64Type>()?.clone(),
            timestamp: column("timestamp")?.as_primitive_opt::<TimestampMillisecondType>()?.clone(),
            timestamp_type: column("timestamp_type")?.as_primitive_opt::<Int8Type>()?.clone(),
            headers,
            leader_epoch: column("leader_epoch").and_then(|column| column.as_primitive_opt::<Int32Type>().cloned()),
            delivery_count: column("delivery_count").and_then(|column| column.as_primitive_opt::<Int16Type>().cloned()),
        };
        Some((columns, topics.values().as_string_opt::<i32>()?.clone()))
    }
}

/// Iterator over the records of a batch. It creates each record on demand.
#[pyclass(frozen, module = "samsarrow._core")]
pub struct RecordIter {
    columns: Columns,
    topics: Vec<Py<PyString>>,
    next_row: AtomicUsize,
    /// The class `ConsumerRecord`, and `tuple.__new__`, which creates its instances.
    class: Py<PyAny>,
    make: Py<PyAny>,
}

#[pymethods]
impl RecordIter {
    #[new]
    fn new(py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<Self> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let _guard = interpreter_guard::acquire(py);
        let class = || Ok::<_, PyErr>(py.import("samsarrow.types")?.getattr("ConsumerRecord")?.unbind());
        let make = || Ok::<_, PyErr>(py.get_type::<PyTuple>().getattr("__new__")?.unbind());
        let (class, make) = (CLASS.get_or_try_init(py, class)?, MAKE.get_or_try_init(py, make)?);
        let columns = match arrow_ffi::from_python(batch)? {
            Input::Batch(batch) => Columns::from_batch(&batch),
            Input::Stream(_) | Input::Reader(_) => None,
        };
        let wrong_columns = || PyTypeError::new_err("records can only be made from batches that a consumer returned");
        let (columns, topics) = columns.ok_or_else(wrong_columns)?;
        let topics = topics.iter().map(|name| PyString::new(py, name.unwrap_or_default()).unbind()).collect();
        Ok(Self {
            columns,
            topics,
            next_row: AtomicUsize::new(0),
            class: class.clone_ref(py),
            make: make.clone_ref(py),
        })
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let row = self.next_row.fetch_add(1, Ordering::Relaxed);
        let columns = &self.columns;
        if row >= columns.rows {
            self.next_row.store(columns.rows, Ordering::Relaxed);
            return Ok(None);
        }
        let bytes = |value: Option<&[u8]>| value.map(|value| PyBytes::new(py, value));
        let headers = PyList::empty(py);
        if let Some((list, names, values)) = columns.headers.as_ref().filter(|(list, ..)| list.is_valid(row)) {
            let offsets = list.value_offsets();
            let ends = offsets.get(row).zip(offsets.get(row + 1)).map_or((0, 0), |(from, to)| (*from, *to));
            for index in ends.0 as usize..ends.1 as usize {
                let value = bytes(values.is_valid(index).then(|| values.value(index)));
                headers.append((names.value(index), value))?;
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
            columns.leader_epoch.as_ref().filter(|epochs| epochs.is_valid(row)).map(|epochs| epochs.value(row)),
            columns.delivery_count.as_ref().filter(|counts| counts.is_valid(row)).map(|counts| counts.value(row)),
        );
        self.make.bind(py).call1((&self.class, fields)).map(Some)
    }

    /// Returns the number of remaining rows.
    fn __length_hint__(&self) -> usize {
        self.columns.rows.saturating_sub(self.next_row.load(Ordering::Relaxed))
    }
}
