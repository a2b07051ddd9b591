//! The producer of `samsarrow._core`.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple};
use samsarrow_arrow::encode::Columns;
use samsarrow_bridge::arrow_ffi::{self, Input};
use samsarrow_bridge::call::Call;
use samsarrow_bridge::callback_threads::{CALLBACKS, CallbackQueue};
use samsarrow_bridge::delivery::{BatchDelivery, Delivery, FOREVER};
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::interpreter_guard;
use samsarrow_bridge::runtime::{Owned, runtime, seconds};
use samsarrow_client::config::ClientKind;
use samsarrow_client::error::{Error, Result};
use samsarrow_client::group::MemberIdentity;
use samsarrow_client::producer::{
    BatchDelivery as CoreBatch, BeginTransaction, GroupMember, Producer as Core, RecordRef,
    Reservation as CoreReservation, SendBatch, TrySendError, ValueColumns, ValueFormat,
};
use samsarrow_wire::messages::Uuid;
use samsarrow_wire::sync::lock;

use crate::codec::{ColumnNames, check_time_zone, format_of, value_columns};
use crate::config;
use crate::conversions::{Committed, Tp, to_offsets, tuples};
use crate::metrics::{Metrics, instance_id};

/// See `samsarrow.Producer`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Producer {
    core: Owned<Arc<Core>>,
}

/// Returns bytes as they are, and text as UTF-8. Immutable objects are borrowed instead of copied.
fn payload<'a>(value: Option<&'a Bound<'_, PyAny>>, what: &str) -> PyResult<Option<Cow<'a, [u8]>>> {
    let Some(value) = value else { return Ok(None) };
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Some(Cow::Borrowed(bytes.as_bytes())));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(Cow::Borrowed(text.to_str()?.as_bytes())));
    }
    if let Ok(array) = value.cast::<PyByteArray>() {
        return Ok(Some(Cow::Owned(array.to_vec())));
    }
    if value.is_instance_of::<PyMemoryView>() {
        // `tobytes` also copies buffers that are not contiguous.
        let bytes = value.call_method0("tobytes")?;
        return Ok(Some(Cow::Owned(bytes.cast::<PyBytes>()?.as_bytes().to_vec())));
    }
    let kind = value.get_type().name()?;
    let remedy = if value.is_instance_of::<PyDict>() || value.is_instance_of::<PyList>() {
        ": encode it, for example with json.dumps"
    } else if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        ": encode it, for example with str"
    } else {
        ""
    };
    Err(PyTypeError::new_err(format!("{what} must be bytes, bytearray, memoryview, str or None, not {kind}{remedy}")))
}

/// Converts an argument. If that fails, the error contains the name of the argument.
fn argument<'a, 'py, T>(value: &'a Bound<'py, PyAny>, name: &str, expected: &str) -> PyResult<T>
where
    T: FromPyObject<'a, 'py>,
    T::Error: Into<PyErr>,
{
    value.extract().map_err(|error: T::Error| {
        let error: PyErr = error.into();
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            // The only integer among the arguments is the partition.
            let text = format!("{name} must be from 0 to {}, not {value}", i32::MAX);
            return to_py(value.py(), &Error::configuration(text));
        }
        let kind = value.get_type().name().map_or_else(|_| "?".to_owned(), |kind| kind.to_string());
        PyTypeError::new_err(format!("{name} must be {expected}, not {kind}"))
    })
}

/// Returns the name and value of one header.
fn header(pair: &Bound<'_, PyAny>) -> PyResult<(String, Option<Bytes>)> {
    let bad = || PyTypeError::new_err(format!("headers must be (name, value) pairs, each a tuple: got {pair}"));
    let pair = pair.cast::<PyTuple>().map_err(|_| bad())?;
    let (Ok(name), Ok(value), 2) = (pair.get_item(0), pair.get_item(1), pair.len()) else { return Err(bad()) };
    let name = argument(&name, "a header's name", "a str")?;
    let value = Some(&value).filter(|value| !value.is_none());
    Ok((name, payload(value, "a header's value")?.map(|value| Bytes::copy_from_slice(&value))))
}

#[pymethods]
impl Producer {
    #[new]
    fn new(py: Python<'_>, options: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let options = config::parse(py, ClientKind::Producer, options)?;
        let runtime = runtime(py)?;
        let _inside = runtime.enter();
        let core = Core::new(&options).map_err(|error| to_py(py, &error))?;
        Ok(Self { core: Owned::new("producer", Arc::new(core)) })
    }

    /// Returns the delivery of the record. If the buffer is full or the topic is unknown, returns a call that returns a
    /// `Reservation`.
    #[pyo3(signature = (topic, value, key, headers, partition, timestamp))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    fn send(
        &self,
        py: Python<'_>,
        topic: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        headers: Option<Vec<Bound<'_, PyAny>>>,
        partition: Option<&Bound<'_, PyAny>>,
        timestamp: Option<i64>,
    ) -> PyResult<Py<PyAny>> {
        let core = self.core.get(py)?;
        let topic: &str = argument(topic, "topic", "a str")?;
        let partition = partition.map(|value| argument(value, "partition", "an int")).transpose()?;
        let headers = headers.unwrap_or_default().iter().map(header).collect::<PyResult<Vec<_>>>()?;
        let (key, value) = (payload(key, "key")?, payload(value, "value")?);
        let (key, value) = (key.as_deref(), value.as_deref());
        let record = RecordRef { topic, partition, timestamp, key, value, headers: &headers };
        match core.try_send(record) {
            Ok(delivery) => Ok(Py::new(py, Delivery::new(delivery))?.into_any()),
            // In both cases the record can be queued later, so the caller waits.
            Err(TrySendError::Full | TrySendError::NeedsMetadata) => {
                let (core, record) = (Arc::clone(&core), record.to_record());
                let room = async move { core.reserve(record).await };
                let room = Call::new(room, |py, room| Ok(Py::new(py, Reservation(Mutex::new(Some(room))))?.into_any()));
                Ok(Py::new(py, room)?.into_any())
            }
            Err(TrySendError::Error(error)) => Err(to_py(py, &error)),
        }
    }

    #[pyo3(signature = (transaction, topic, data, key, value, headers, partition, timestamp, value_format))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    fn send_batch(
        &self,
        py: Python<'_>,
        transaction: u64,
        topic: String,
        data: &Bound<'_, PyAny>,
        key: Option<String>,
        value: Option<ColumnNames>,
        headers: Option<String>,
        partition: Option<String>,
        timestamp: Option<String>,
        value_format: Option<&str>,
    ) -> PyResult<Batches> {
        let core = Arc::clone(&*self.core.get(py)?);
        let mut columns = Columns { key, value: None, headers, partition, timestamp };
        let written = match (value_format, value) {
            (Some(format), value) => Some(Arc::new((format_of(py, format)?, value_columns(py, value)?))),
            (None, Some(ColumnNames::Several(_))) => {
                let text = "several columns make up a value only as value_format=\"json\" or \"ipc\"";
                return Err(to_py(py, &Error::configuration(text)));
            }
            (None, value) => {
                columns.value = value.and_then(ColumnNames::into_single);
                None
            }
        };
        let input = Mutex::new(Some(arrow_ffi::from_python(data)?));
        let call = Arc::new(core.batch_call(Some(transaction)));
        Ok(Batches { core, topic, input, call, columns, written, sent: Arc::default() })
    }

    /// Returns the number of the open transaction, or of the last transaction if none is open.
    fn transaction_number(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.core.get(py)?.transaction_number())
    }

    /// Waits for all deliveries. Then, if records have failed whose deliveries were not read, raises an error if
    /// `raises`, and otherwise logs them.
    #[pyo3(signature = (timeout, raises))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>, raises: bool) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let limit = seconds(py, timeout, FOREVER)?;
        let queue = callback_queue();
        let flush = async move {
            let started = Instant::now();
            core.flush(timeout.map(|_| limit)).await?;
            wait_for_callbacks(queue, limit.saturating_sub(started.elapsed())).await;
            Ok(core)
        };
        // Check in the thread of the caller after the flush, because cancelled awaits have then left their results
        // unread. If the flush itself is cancelled, failures are not marked as read.
        Ok(Call::new(flush, move |py, core| {
            check_unread(&core, "flush", raises).map_err(|error| to_py(py, &error))?;
            Ok(py.None())
        }))
    }

    #[pyo3(signature = (topic, timeout))]
    fn partitions_for(&self, py: Python<'_>, topic: String, timeout: Option<f64>) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let timeout = timeout.map(|value| seconds(py, Some(value), FOREVER)).transpose()?;
        let partitions = async move { core.partitions_for(&topic, timeout).await };
        Ok(Call::new(partitions, |py, partitions| Ok(tuples(&partitions).into_pyobject(py)?.unbind())))
    }

    #[pyo3(signature = (timeout))]
    fn client_instance_id(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let limit = timeout.map(|value| seconds(py, Some(value), FOREVER)).transpose()?;
        Ok(instance_id(async move { core.client_instance_id(limit).await }))
    }

    fn metrics(&self, py: Python<'_>) -> PyResult<Metrics> {
        Ok(Metrics::new(self.core.get(py)?.metrics()))
    }

    fn partition_count(&self, py: Python<'_>, topic: String) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let count = async move { core.partition_count(&topic).await };
        Ok(Call::new(count, |py, count| Ok(count.into_pyobject(py)?.into_any().unbind())))
    }

    #[pyo3(signature = (timeout))]
    fn init_transactions(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let timeout = timeout.map(|value| seconds(py, Some(value), FOREVER)).transpose()?;
        Ok(Call::without_result(async move { core.init_transactions(timeout).await }))
    }

    #[pyo3(signature = (timeout))]
    fn begin_transaction(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Begin> {
        let core = Arc::clone(&*self.core.get(py)?);
        let timeout = timeout.map(|value| seconds(py, Some(value), FOREVER)).transpose()?;
        Ok(Begin { core, call: Arc::default(), timeout })
    }

    #[pyo3(signature = (timeout))]
    fn commit_transaction(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let timeout = timeout.map(|value| seconds(py, Some(value), FOREVER)).transpose()?;
        Ok(Call::without_result(async move { core.commit_transaction(timeout).await }))
    }

    #[pyo3(signature = (timeout))]
    fn abort_transaction(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let timeout = timeout.map(|value| seconds(py, Some(value), FOREVER)).transpose()?;
        Ok(Call::without_result(async move { core.abort_transaction(timeout).await }))
    }

    /// Adds offsets of a group to the transaction. `member` is the group, the member id, the generation and the
    /// instance id; `topic_ids` are the ids of the topics that the member reads.
    #[pyo3(signature = (offsets, member, topic_ids, timeout))]
    fn send_offsets_to_transaction(
        &self,
        py: Python<'_>,
        offsets: Vec<(Tp, Committed)>,
        member: (String, String, i32, Option<String>),
        topic_ids: Vec<(String, [u8; 16])>,
        timeout: Option<f64>,
    ) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let timeout = timeout.map(|value| seconds(py, Some(value), FOREVER)).transpose()?;
        let (group, member_id, generation, instance_id) = member;
        let topic_ids = topic_ids.into_iter().map(|(topic, id)| (topic.into(), Uuid(id))).collect();
        let member = GroupMember { group, member: MemberIdentity { member_id, generation, instance_id }, topic_ids };
        let offsets = to_offsets(offsets);
        Ok(Call::without_result(async move { core.send_offsets_to_transaction(offsets, member, timeout).await }))
    }

    /// Closes the producer. Closing continues in the background if a signal handler raises.
    #[pyo3(signature = (timeout, raises))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>, raises: bool) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let limit = seconds(py, timeout, FOREVER)?;
        let queue = callback_queue();
        let closing = async move {
            let started = Instant::now();
            let closed = core.close(limit).await;
            wait_for_callbacks(queue, limit.saturating_sub(started.elapsed())).await;
            Ok((core, closed))
        };
        // As in `flush`, check in the thread of the caller. If the caller no longer waits, failures are logged when the
        // producer is dropped.
        let call = Call::new(closing, move |py, (core, closed)| {
            // If `close` itself failed, its error is raised and unread failures are only logged.
            let reported = check_unread(&core, "close", raises && closed.is_ok());
            reported.and(closed).map_err(|error| to_py(py, &error))?;
            Ok(py.None())
        });
        Ok(call.continue_if_interrupted())
    }

    /// Ends a producer that the application did not close, and logs the records that are not delivered. If `usable`,
    /// the producer is not closed, so that finalizers of the application that run after the interpreter's exit hooks
    /// can still use it.
    #[pyo3(signature = (usable))]
    fn finish(&self, py: Python<'_>, usable: bool) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        Ok(Call::without_result(async move {
            core.finish(usable).await;
            Ok(())
        }))
    }

    /// Fails all records that are not delivered yet.
    fn give_up(&self, py: Python<'_>) -> PyResult<()> {
        let core = Arc::clone(&*self.core.get(py)?);
        interpreter_guard::detach(py, || core.abort_incomplete());
        Ok(())
    }
}

/// Raises or logs an error for failed records whose deliveries were not read.
fn check_unread(core: &Core, call: &str, raises: bool) -> Result<()> {
    if raises {
        return core.check_unread(call);
    }
    core.log_unread();
    Ok(())
}

/// A call of `begin_transaction` that can be cancelled.
#[pyclass(frozen, module = "samsarrow._core")]
#[derive(Debug)]
pub(crate) struct Begin {
    core: Arc<Core>,
    call: Arc<BeginTransaction>,
    timeout: Option<Duration>,
}

#[pymethods]
impl Begin {
    /// Returns the call that opens the transaction.
    fn call(&self) -> Call {
        let (core, call, timeout) = (Arc::clone(&self.core), Arc::clone(&self.call), self.timeout);
        Call::without_result(async move { core.begin_transaction_of(&call, timeout).await })
    }

    /// Cancels the call. Returns true if the transaction is already open.
    fn cancel(&self) -> bool {
        self.core.cancel_begin(&self.call)
    }
}

/// Returns the callback queue, or `None` if it does not exist. Also returns `None` on the queue's own thread, which
/// must not wait for itself.
fn callback_queue() -> Option<Arc<CallbackQueue>> {
    CALLBACKS.started().filter(|queue| !queue.is_current_thread())
}

/// Waits for at most `limit` until the callbacks that are queued so far have run. Callbacks that have not run by then
/// run later.
async fn wait_for_callbacks(queue: Option<Arc<CallbackQueue>>, limit: Duration) {
    if let Some(queue) = queue {
        let _ = tokio::time::timeout(limit, queue.wait_until_drained()).await;
    }
}

/// Buffer memory that is reserved for a record that had to wait.
#[pyclass(frozen, module = "samsarrow._core")]
#[derive(Debug)]
pub(crate) struct Reservation(Mutex<Option<CoreReservation>>);

#[pymethods]
impl Reservation {
    /// Queues the record.
    fn send(&self, py: Python<'_>) -> PyResult<Delivery> {
        let room = lock(&self.0).take();
        let already_sent = || PyRuntimeError::new_err("a record is sent once");
        room.ok_or_else(already_sent)?.send().map(Delivery::new).map_err(|error| to_py(py, &error))
    }
}

/// A `send_batch` in progress. It reads the input one batch at a time, so that memory is bounded by `buffer.memory`
/// instead of the size of the input.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Batches {
    core: Arc<Core>,
    topic: String,
    /// None while a batch is being read from the input.
    input: Mutex<Option<Input>>,
    call: Arc<SendBatch>,
    columns: Columns,
    written: Option<Arc<(ValueFormat, ValueColumns)>>,
    sent: Arc<Mutex<Vec<CoreBatch>>>,
}

impl Batches {}

#[pymethods]
impl Batches {
    /// Returns the call that sends the next batch, or None at the end of the data.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Call>> {
        let Some(mut input) = lock(&self.input).take() else {
            return Err(PyRuntimeError::new_err("this Arrow data is being read already"));
        };
        let batch = input.next(py);
        *lock(&self.input) = Some(input);
        let Some(batch) = batch? else { return Ok(None) };
        check_time_zone(py, &batch.schema(), self.columns.timestamp.as_deref())?;
        let (core, topic, columns) = (Arc::clone(&self.core), self.topic.clone(), self.columns.clone());
        let (written, sent, call) = (self.written.clone(), Arc::clone(&self.sent), Arc::clone(&self.call));
        let work = async move {
            let borrowed = batch.clone();
            let written = written.as_deref().map(|(format, value)| (value, *format));
            let result = core.send_part(&call, &topic, batch, columns, written).await;
            // Return the batch, so that memory borrowed from Python is released on an attached thread instead of a
            // thread of the client.
            Ok((result, borrowed))
        };
        let call = Call::new(work, move |py, (result, borrowed)| {
            drop(borrowed);
            lock(&sent).push(result.delivery);
            result.outcome.map_err(|error| to_py(py, &error))?;
            Ok(py.None())
        });
        Ok(Some(call.offloaded()))
    }

    /// Stops queueing rows. Returns the number of rows that were queued.
    fn cancel(&self) -> u64 {
        self.core.cancel_batch(&self.call)
    }

    /// Returns the delivery of all rows that were sent so far.
    fn delivery(&self) -> BatchDelivery {
        BatchDelivery::new(std::mem::take(&mut *lock(&self.sent)))
    }
}
