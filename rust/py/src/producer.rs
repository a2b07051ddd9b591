//! The producer as Python calls it.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString, PyTuple};
use samsarrow_arrow::encode::Columns;
use samsarrow_bridge::arrow_ffi::{self, Input};
use samsarrow_bridge::call::Call;
use samsarrow_bridge::delivery::{BatchDelivery, Delivery, FOREVER};
use samsarrow_bridge::error::to_py;
use samsarrow_bridge::gate;
use samsarrow_bridge::lanes::{CALLBACKS, Lane};
use samsarrow_bridge::runtime::{Owned, runtime, seconds};
use samsarrow_client::config::ClientKind;
use samsarrow_client::error::{Error, Result};
use samsarrow_client::group::MemberIdentity;
use samsarrow_client::producer::{
    BatchDelivery as CoreBatch, BeginTransaction, GroupMember, Producer as Core, RecordRef,
    Reservation as CoreReservation, SendBatch, TrySendError, ValueColumns, ValueFormat,
};

use crate::codec::{Names, format_of, value_columns};
use crate::config;
use crate::metrics::{Metrics, instance_id};
use crate::partitions::{Committed, Tp, given, tuples};

/// See `samsarrow.Producer`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Producer {
    core: Owned<Arc<Core>>,
}

/// Bytes, or text as UTF-8: where nobody can change them, as they lie there.
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
        // `tobytes` also lays out what is not contiguous.
        let bytes = value.call_method0("tobytes")?;
        return Ok(Some(Cow::Owned(bytes.cast::<PyBytes>()?.as_bytes().to_vec())));
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!("{what} must be bytes, bytearray, memoryview, str or None, not {kind}")))
}

/// Returns an argument as a type of ours; the error names the argument.
fn argument<'a, 'py, T>(value: &'a Bound<'py, PyAny>, name: &str, expected: &str) -> PyResult<T>
where
    T: FromPyObject<'a, 'py>,
    T::Error: Into<PyErr>,
{
    value.extract().map_err(|error: T::Error| {
        let error: PyErr = error.into();
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            return PyOverflowError::new_err(format!("{name} is out of range: {value}"));
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

    /// A delivery; where there is no room yet, or the topic is not known, a call that gives a `Room`.
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
        let partition = partition.map(|given| argument(given, "partition", "an int")).transpose()?;
        let headers = headers.unwrap_or_default().iter().map(header).collect::<PyResult<Vec<_>>>()?;
        let (key, value) = (payload(key, "key")?, payload(value, "value")?);
        let (key, value) = (key.as_deref(), value.as_deref());
        let record = RecordRef { topic, partition, timestamp, key, value, headers: &headers };
        match core.try_send(record) {
            Ok(delivery) => Ok(Py::new(py, Delivery::new(delivery))?.into_any()),
            // Only a full buffer or an unknown topic makes anybody wait.
            Err(TrySendError::Full | TrySendError::NeedsMetadata) => {
                let (core, record) = (Arc::clone(&core), record.to_record());
                let room = async move { core.reserve(record).await };
                let room = Call::new(room, |py, room| Ok(Py::new(py, Room(Mutex::new(Some(room))))?.into_any()));
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
        value: Option<Names>,
        headers: Option<String>,
        partition: Option<String>,
        timestamp: Option<String>,
        value_format: Option<&str>,
    ) -> PyResult<Batches> {
        let core = Arc::clone(&*self.core.get(py)?);
        let mut columns = Columns { key, value: None, headers, partition, timestamp };
        let written = match (value_format, value) {
            (Some(format), value) => Some(Arc::new((format_of(py, format)?, value_columns(py, value)?))),
            (None, Some(Names::Several(_))) => {
                let text = "several columns make up a value only as value_format=\"json\" or \"ipc\"";
                return Err(to_py(py, &Error::configuration(text)));
            }
            (None, value) => {
                columns.value = value.and_then(Names::one);
                None
            }
        };
        let input = Mutex::new(Some(arrow_ffi::from_python(data)?));
        let call = Arc::new(core.batch_call(Some(transaction)));
        Ok(Batches { core, topic, input, call, columns, written, sent: Arc::default() })
    }

    /// The number of the transaction that is open, or was the last.
    fn transaction_number(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.core.get(py)?.transaction_number())
    }

    /// `raises`: records that failed, and whose deliveries nothing has read, are an error; otherwise they are logged.
    #[pyo3(signature = (timeout, raises))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>, raises: bool) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let limit = seconds(py, timeout, FOREVER)?;
        let lane = callbacks();
        let flushed = async move {
            let started = Instant::now();
            core.flush(timeout.map(|_| limit)).await?;
            called_back(lane, limit.saturating_sub(started.elapsed())).await;
            Ok(core)
        };
        // In the thread of the caller: awaits that were cancelled have left their results unread by then, and a flush that
        // was cancelled takes no failures.
        Ok(Call::new(flushed, move |py, core| {
            check_unread(&core, "flush", raises).map_err(|error| to_py(py, &error))?;
            Ok(py.None())
        }))
    }

    fn partitions_for(&self, py: Python<'_>, topic: String) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let found = async move { core.partitions_for(&topic).await };
        Ok(Call::new(found, |py, found| Ok(tuples(&found).into_pyobject(py)?.unbind())))
    }

    #[pyo3(signature = (timeout))]
    fn client_instance_id(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let limit = timeout.map(|given| seconds(py, Some(given), FOREVER)).transpose()?;
        Ok(instance_id(async move { core.client_instance_id(limit).await }))
    }

    fn metrics(&self, py: Python<'_>) -> PyResult<Metrics> {
        Ok(Metrics::new(self.core.get(py)?.metrics()))
    }

    fn partition_count(&self, py: Python<'_>, topic: String) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let found = async move { core.partition_count(&topic).await };
        Ok(Call::new(found, |py, found| Ok(found.into_pyobject(py)?.into_any().unbind())))
    }

    #[pyo3(signature = (timeout))]
    fn init_transactions(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let timeout = timeout.map(|given| seconds(py, Some(given), FOREVER)).transpose()?;
        Ok(Call::done(async move { core.init_transactions(timeout).await }))
    }

    fn begin_transaction(&self, py: Python<'_>) -> PyResult<Begin> {
        let core = Arc::clone(&*self.core.get(py)?);
        Ok(Begin { core, call: Arc::default() })
    }

    #[pyo3(signature = (timeout))]
    fn commit_transaction(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let timeout = timeout.map(|given| seconds(py, Some(given), FOREVER)).transpose()?;
        Ok(Call::done(async move { core.commit_transaction(timeout).await }))
    }

    #[pyo3(signature = (timeout))]
    fn abort_transaction(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let timeout = timeout.map(|given| seconds(py, Some(given), FOREVER)).transpose()?;
        Ok(Call::done(async move { core.abort_transaction(timeout).await }))
    }

    /// Offsets of a group; `who` is its name, the member, its generation and its instance id.
    #[pyo3(signature = (offsets, who, timeout))]
    fn send_offsets_to_transaction(
        &self,
        py: Python<'_>,
        offsets: Vec<(Tp, Committed)>,
        who: (String, String, i32, Option<String>),
        timeout: Option<f64>,
    ) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let timeout = timeout.map(|given| seconds(py, Some(given), FOREVER)).transpose()?;
        let (group, member_id, generation, instance_id) = who;
        let who = GroupMember { group, member: MemberIdentity { member_id, generation, instance_id } };
        let offsets = given(offsets);
        Ok(Call::done(async move { core.send_offsets_to_transaction(offsets, who, timeout).await }))
    }

    /// Goes on in the background if a signal's handler raises.
    #[pyo3(signature = (timeout, raises))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>, raises: bool) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let limit = seconds(py, timeout, FOREVER)?;
        let lane = callbacks();
        let closing = async move {
            let started = Instant::now();
            let closed = core.close(limit).await;
            called_back(lane, limit.saturating_sub(started.elapsed())).await;
            Ok((core, closed))
        };
        // As for `flush`: a close that continues without a caller leaves the failures to the log, at the producer's end.
        let call = Call::new(closing, move |py, (core, closed)| {
            // After an error of its own, the numbers of records go to the log.
            let reported = check_unread(&core, "close", raises && closed.is_ok());
            reported.and(closed).map_err(|error| to_py(py, &error))?;
            Ok(py.None())
        });
        Ok(call.going_on())
    }

    /// Ends a producer that the application did not close, and logs what is not delivered. It is closed unless it is to stay
    /// `usable`, for finalizers of the application that run after the hooks of the interpreter's exit.
    #[pyo3(signature = (usable))]
    fn finish(&self, py: Python<'_>, usable: bool) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        Ok(Call::done(async move {
            core.finish(usable).await;
            Ok(())
        }))
    }

    /// Fails what is not delivered yet.
    fn give_up(&self, py: Python<'_>) -> PyResult<()> {
        let core = Arc::clone(&*self.core.get(py)?);
        gate::detach(py, || core.abort_incomplete());
        Ok(())
    }
}

/// Reports records that failed and whose deliveries nothing has read.
fn check_unread(core: &Core, call: &str, raises: bool) -> Result<()> {
    if raises {
        return core.check_unread(call);
    }
    core.log_unread();
    Ok(())
}

/// A call of `begin_transaction`, which may be cancelled.
#[pyclass(frozen, module = "samsarrow._core")]
#[derive(Debug)]
pub(crate) struct Begin {
    core: Arc<Core>,
    call: Arc<BeginTransaction>,
}

#[pymethods]
impl Begin {
    /// Opens the transaction.
    fn call(&self) -> Call {
        let (core, call) = (Arc::clone(&self.core), Arc::clone(&self.call));
        Call::done(async move { core.begin_transaction_of(&call).await })
    }

    /// Keeps it from being opened; returns whether it is open already.
    fn cancel(&self) -> bool {
        self.core.cancel_begin(&self.call)
    }
}

/// The thread that calls back, if there is one and it is not this one: it would wait for itself.
fn callbacks() -> Option<Arc<Lane>> {
    CALLBACKS.begun().filter(|lane| !lane.is_here())
}

/// Waits until the callbacks of what is done were called; what is not called by then is called later.
async fn called_back(lane: Option<Arc<Lane>>, limit: Duration) {
    if let Some(lane) = lane {
        let _ = tokio::time::timeout(limit, lane.settled()).await;
    }
}

/// Room for a record that had to wait for it.
#[pyclass(frozen, module = "samsarrow._core")]
#[derive(Debug)]
pub(crate) struct Room(Mutex<Option<CoreReservation>>);

#[pymethods]
impl Room {
    /// Takes the record.
    fn send(&self, py: Python<'_>) -> PyResult<Delivery> {
        let room = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let gone = || PyRuntimeError::new_err("a record is sent once");
        room.ok_or_else(gone)?.send().map(Delivery::new).map_err(|error| to_py(py, &error))
    }
}

/// Arrow data that is being sent, one batch of the input after the other: memory holds what `buffer.memory` allows, not
/// the whole input.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Batches {
    core: Arc<Core>,
    topic: String,
    /// Not while it is read.
    input: Mutex<Option<Input>>,
    call: Arc<SendBatch>,
    columns: Columns,
    written: Option<Arc<(ValueFormat, ValueColumns)>>,
    sent: Arc<Mutex<Vec<CoreBatch>>>,
}

impl Batches {
    fn input(&self) -> MutexGuard<'_, Option<Input>> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Batches {
    /// Returns the call that sends the next batch, None at the end of the data.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Call>> {
        let Some(mut input) = self.input().take() else {
            return Err(PyRuntimeError::new_err("this Arrow data is being read already"));
        };
        let batch = input.next(py);
        *self.input() = Some(input);
        let Some(batch) = batch? else { return Ok(None) };
        let (core, topic, columns) = (Arc::clone(&self.core), self.topic.clone(), self.columns.clone());
        let (written, sent, within) = (self.written.clone(), Arc::clone(&self.sent), Arc::clone(&self.call));
        let work = async move {
            let lent = batch.clone();
            let written = written.as_deref().map(|(format, value)| (value, *format));
            let done = core.send_part(&within, &topic, batch, columns, written).await;
            // What was lent by Python is given back where Python is at hand, not on a thread of the core.
            Ok((done, lent))
        };
        let call = Call::new(work, move |py, (done, lent)| {
            drop(lent);
            sent.lock().unwrap_or_else(PoisonError::into_inner).push(done.delivery);
            done.outcome.map_err(|error| to_py(py, &error))?;
            Ok(py.None())
        });
        Ok(Some(call.elsewhere()))
    }

    /// Queues no more rows; returns how many were queued.
    fn cancel(&self) -> u64 {
        self.core.cancel_batch(&self.call)
    }

    /// What becomes of all that was sent.
    fn delivery(&self) -> BatchDelivery {
        BatchDelivery::new(std::mem::take(&mut *self.sent.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
