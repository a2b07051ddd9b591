//! Delivery results of sent records and batches.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use samsarrow_client::error::{Error, Result};
use samsarrow_client::producer::{
    BatchDelivery as CoreBatch, CompletionListener, Delivery as CoreDelivery, PartOutcome, PartitionReceipt,
    RecordMetadata,
};
use samsarrow_client::sync::lock;

use crate::aio;
use crate::call::Call;
use crate::callback_threads::{self, CALLBACKS, CallbackQueue, Context};
use crate::error::{to_py, to_py_value};
use crate::interpreter_guard;
use crate::runtime::{Owned, Seconds, run, seconds};

/// Timeout that never expires in practice: about 31 years.
pub const FOREVER: Duration = Duration::from_secs(1_000_000_000);

/// The pending result of one record, to be waited for, awaited, or passed to a callback. Several callers may wait, and
/// the result stays available.
#[pyclass(frozen, module = "samsarrow._core")]
pub struct Delivery {
    core: Owned<CoreDelivery>,
}

impl Delivery {
    pub fn new(core: CoreDelivery) -> Self {
        Self { core: Owned::new("delivery", core) }
    }

    /// Waits for the result for at most `timeout` seconds.
    fn outcome(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Result<RecordMetadata>> {
        let core = self.core.get(py)?;
        let limit = seconds(py, timeout.map(|timeout| timeout.0), FOREVER)?;
        match core.peek() {
            Some(outcome) => Ok(outcome),
            None => run(py, with_timeout(limit, "the delivery", core.wait())),
        }
    }
}

#[pymethods]
impl Delivery {
    /// Waits for the broker's response.
    ///
    /// Args:
    ///     timeout: seconds to wait; by default until the result is available (at most `delivery.timeout.ms`).
    ///
    /// Raises:
    ///     KafkaTimeoutError: no result was available in time.
    ///     KafkaError: the record was not delivered.
    #[pyo3(signature = (timeout=None))]
    fn result(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Py<PyAny>> {
        metadata(py, self.outcome(py, timeout)?.map_err(|error| to_py(py, &error))?)
    }

    /// Waits as `result` does, and returns the error, or None if the record was delivered.
    ///
    /// Args:
    ///     timeout: seconds to wait; by default until the result is available (at most `delivery.timeout.ms`).
    ///
    /// Raises:
    ///     KafkaTimeoutError: no result was available in time.
    #[pyo3(signature = (timeout=None))]
    fn exception(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.outcome(py, timeout)?.err().map(|error| to_py_value(py, &error)))
    }

    /// Returns True if the result is available.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.core.get(py)?.is_done())
    }

    /// Calls `fn(delivery)` on a client thread once the result is available.
    ///
    /// It is called in the same way as `on_delivery` of `send`.
    #[pyo3(signature = (r#fn))]
    fn add_done_callback(slf: Bound<'_, Self>, py: Python<'_>, r#fn: Py<PyAny>) -> PyResult<()> {
        callable(r#fn.bind(py))?;
        let (queue, context) = (callbacks_with_capacity(py)?, Context::current(py)?);
        let delivery = slf.clone().unbind();
        slf.get().core.get(py)?.on_done(Box::new(move |_| {
            queue.push(usize::MAX, move |py| context.call(py, r#fn, [delivery.into_bound(py).into_any()]));
        }));
        Ok(())
    }

    /// Queues a call of `callback(metadata, error)` once the result is available. One of the two arguments is None.
    fn _notify(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        let (queue, context) = (CALLBACKS.get(py)?, Context::current(py)?);
        self.core.get(py)?.on_done(Box::new(move |outcome| {
            queue.push(usize::MAX, move |py| callback_call(py, &context, callback, outcome));
        }));
        Ok(())
    }

    fn __await__(slf: Bound<'_, Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let core = slf.get().core.get(py)?;
        if let Some(outcome) = core.peek() {
            return aio::Ready::iterator(py, metadata(py, outcome.map_err(|error| to_py(py, &error))?)?);
        }
        let (delivery, reading) = (slf.clone().unbind(), core.reading());
        // If the await is cancelled, the guard is dropped without reading the result, so that a failure still counts as
        // unread.
        let take = move |py: Python<'_>, _| {
            let result = delivery.get().result(py, Some(Seconds(0.0)));
            drop(reading);
            result
        };
        let (completion, iterator) = aio::wait(py, Box::new(take))?;
        let (inbox, number) = completion.into_parts();
        core.add_listener(inbox, number);
        Ok(iterator)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let core = self.core.get(py)?;
        let state = match core.look() {
            None => "pending".to_owned(),
            Some(Ok(record)) => format!("offset={}", record.offset),
            Some(Err(error)) => format!("failed: {error}"),
        };
        Ok(format!("<Delivery topic={:?} partition={} {state}>", core.topic(), core.partition()))
    }
}

/// The pending result of a `send_batch`; its length is the number of rows. Several callers may wait, and the result stays
/// available.
#[pyclass(frozen, module = "samsarrow._core")]
pub struct BatchDelivery {
    parts: Owned<Vec<CoreBatch>>,
}

type Receipts = Vec<PartitionReceipt>;

impl BatchDelivery {
    pub fn new(parts: Vec<CoreBatch>) -> Self {
        Self { parts: Owned::new("delivery", parts) }
    }

    fn outcome(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Result<Receipts>> {
        let parts = self.parts.get(py)?;
        let limit = seconds(py, timeout.map(|timeout| timeout.0), FOREVER)?;
        let wait_for_all = async {
            let _reading: Vec<_> = parts.iter().map(CoreBatch::reading).collect();
            for part in parts.iter() {
                let _ = part.wait().await;
            }
        };
        match peek(&parts) {
            Some(outcome) => Ok(outcome),
            None => {
                run(py, with_timeout(limit, "the delivery of all rows", wait_for_all))?;
                Ok(peek(&parts).unwrap_or_else(|| Ok(Vec::new())))
            }
        }
    }

    /// Returns the first error, whose attribute `outcomes` has the outcomes of all rows.
    fn failure(&self, py: Python<'_>, error: &Error) -> PyResult<PyErr> {
        let (mut failed, mut all) = (0, 0);
        for part in self.parts.get(py)?.iter().flat_map(CoreBatch::outcomes) {
            all += part.count;
            failed += if part.outcome.is_err() { part.count } else { 0 };
        }
        let raised = to_py(py, &error.clone().context(format!("{failed} of {all} rows were not delivered")));
        raised.value(py).setattr("outcomes", self.outcomes(py)?)?;
        Ok(raised)
    }

    /// Calls `done` once all rows have a result. Does not mark failures as read.
    fn on_ready(&self, py: Python<'_>, done: impl FnOnce() + Send + 'static) -> PyResult<()> {
        let parts = self.parts.get(py)?;
        if parts.is_empty() {
            done();
            return Ok(());
        }
        let pending = Arc::new(AtomicUsize::new(parts.len()));
        let done = Arc::new(Mutex::new(Some(done)));
        for part in parts.iter() {
            let (pending, done) = (Arc::clone(&pending), Arc::clone(&done));
            part.on_ready(move || {
                if pending.fetch_sub(1, Ordering::AcqRel) == 1
                    && let Some(done) = lock(&done).take()
                {
                    done();
                }
            });
        }
        Ok(())
    }
}

#[pymethods]
impl BatchDelivery {
    /// Waits for the brokers' responses to all rows.
    ///
    /// Args:
    ///     timeout: seconds to wait; by default until all results are available (at most `delivery.timeout.ms`).
    ///
    /// Raises:
    ///     KafkaTimeoutError: not all results were available in time.
    ///     KafkaError: a row was not delivered. The attribute `outcomes` of the error has the outcomes of all rows.
    #[pyo3(signature = (timeout=None))]
    fn result(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Py<PyAny>> {
        match self.outcome(py, timeout)? {
            Ok(partitions) => receipts(py, &partitions),
            Err(error) => Err(self.failure(py, &error)?),
        }
    }

    /// Returns the results available so far, one per run of rows, in the order in which the rows were queued.
    ///
    /// Runs without a response are left out.
    fn outcomes(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let parts = self.parts.get(py)?;
        let _guard = interpreter_guard::acquire(py);
        let class = class(py, &CLASS, "PartOutcome")?;
        let convert = |topic: &str, part: PartOutcome| {
            let (offset, error) = match part.outcome {
                Ok(offset) => (Some(offset), None),
                Err(error) => (None, Some(to_py_value(py, &error))),
            };
            class.call1((topic, part.partition, offset, part.count, (part.rows.start, part.rows.end), error))
        };
        let all = parts.iter().flat_map(|batch| batch.outcomes().into_iter().map(|part| convert(batch.topic(), part)));
        Ok(all.collect::<PyResult<Vec<_>>>()?.into_pyobject(py)?.unbind())
    }

    /// Waits as `result` does, and returns the first error, or None if all rows were delivered.
    ///
    /// Args:
    ///     timeout: seconds to wait; by default until all results are available (at most `delivery.timeout.ms`).
    ///
    /// Raises:
    ///     KafkaTimeoutError: not all results were available in time.
    #[pyo3(signature = (timeout=None))]
    fn exception(&self, py: Python<'_>, timeout: Option<Seconds>) -> PyResult<Option<Py<PyAny>>> {
        match self.outcome(py, timeout)? {
            Ok(_) => Ok(None),
            Err(error) => Ok(Some(self.failure(py, &error)?.into_value(py).into_any())),
        }
    }

    /// Returns True if all rows have a result.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.parts.get(py)?.iter().all(CoreBatch::is_done))
    }

    /// Calls `fn(delivery)` on a client thread once all rows have a result.
    ///
    /// It is called in the same way as `on_delivery` of `send`.
    #[pyo3(signature = (r#fn))]
    fn add_done_callback(slf: Bound<'_, Self>, py: Python<'_>, r#fn: Py<PyAny>) -> PyResult<()> {
        callable(r#fn.bind(py))?;
        let (queue, context) = (callbacks_with_capacity(py)?, Context::current(py)?);
        let delivery = slf.clone().unbind();
        let parts = slf.get().parts.get(py)?.clone();
        let reading: Vec<_> = parts.iter().map(CoreBatch::reading).collect();
        slf.get().on_ready(py, move || {
            // The callback receives the delivery with the results of all rows, so they count as read.
            parts.iter().for_each(|part| drop(part.peek()));
            drop(reading);
            queue.push(usize::MAX, move |py| context.call(py, r#fn, [delivery.into_bound(py).into_any()]));
        })
    }

    fn __await__(slf: Bound<'_, Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if slf.get().done(py)? {
            return aio::Ready::iterator(py, slf.get().result(py, Some(Seconds(0.0)))?);
        }
        let reading: Vec<_> = slf.get().parts.get(py)?.iter().map(CoreBatch::reading).collect();
        let delivery = slf.clone().unbind();
        // As in the await of a single record, failures still count as unread if this await is cancelled.
        let take = move |py: Python<'_>, _| {
            let result = delivery.get().result(py, Some(Seconds(0.0)));
            drop(reading);
            result
        };
        let (completion, iterator) = aio::wait(py, Box::new(take))?;
        slf.get().on_ready(py, move || completion.complete(None))?;
        Ok(iterator)
    }

    /// Always true, even without rows, because a delivery is a pending result and not a list.
    #[allow(clippy::unused_self, reason = "Python's protocol")]
    fn __bool__(&self) -> bool {
        true
    }

    /// Returns the number of rows.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.parts.get(py)?.iter().map(CoreBatch::len).sum::<u64>() as usize)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let parts = self.parts.get(py)?;
        let rows: u64 = parts.iter().map(CoreBatch::len).sum();
        let state = match gather(&parts, CoreBatch::look) {
            None => "pending".to_owned(),
            Some(Ok(_)) => "delivered".to_owned(),
            Some(Err(error)) => format!("failed: {error}"),
        };
        Ok(format!("<BatchDelivery rows={rows} {state}>"))
    }
}

impl CompletionListener for aio::Inbox {
    fn on_complete(&self, numbers: Vec<u64>) {
        self.push(numbers.into_iter().map(|number| (number, None)));
    }
}

/// Returns a call that waits until fewer callbacks are pending, or None if there is no need to wait.
#[pyfunction]
pub fn callbacks_backlog() -> Option<Call> {
    let queue = CALLBACKS.started().filter(|queue| queue.is_backlogged())?;
    Some(Call::without_result(async move {
        queue.wait_for_capacity().await;
        Ok(())
    }))
}

fn callable(function: &Bound<'_, PyAny>) -> PyResult<()> {
    if function.is_callable() {
        return Ok(());
    }
    let kind = function.get_type().name()?;
    Err(PyTypeError::new_err(format!("fn must be a function such as fn(delivery), not {kind}")))
}

/// Returns the callback queue once it has capacity. A thread that runs an event loop does not wait for capacity,
/// because that would block the loop.
fn callbacks_with_capacity(py: Python<'_>) -> PyResult<Arc<CallbackQueue>> {
    let _guard = interpreter_guard::acquire(py);
    let queue = CALLBACKS.get(py)?;
    if queue.is_backlogged() && !py.import("samsarrow._aio")?.getattr("runs_loop")?.call0()?.is_truthy()? {
        run(py, async {
            queue.wait_for_capacity().await;
            Ok(())
        })?;
    }
    Ok(queue)
}

/// Returns the receipts of all `parts` of a batch, or the first failure. Returns `None` while any part is pending.
fn peek(parts: &[CoreBatch]) -> Option<Result<Receipts>> {
    gather(parts, CoreBatch::peek)
}

fn gather(parts: &[CoreBatch], outcome: fn(&CoreBatch) -> Option<Result<Receipts>>) -> Option<Result<Receipts>> {
    let mut receipts = Vec::new();
    let mut failure = None;
    for part in parts {
        match outcome(part)? {
            Ok(more) => join(&mut receipts, more),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Some(failure.map_or(Ok(receipts), Err))
}

/// Appends receipts. Contiguous receipts of the same partition are merged.
fn join(receipts: &mut Vec<PartitionReceipt>, more: Vec<PartitionReceipt>) {
    for next in more {
        let last = receipts.iter_mut().rev().find(|receipt| receipt.partition == next.partition);
        match last {
            Some(last) if last.base_offset >= 0 && last.base_offset + last.count as i64 == next.base_offset => {
                last.count += next.count;
            }
            // With acks=0, there are no offsets, so the receipts of a partition are always merged.
            Some(last) if last.base_offset < 0 && next.base_offset < 0 => last.count += next.count,
            _ => receipts.push(next),
        }
    }
    receipts.sort_by_key(|receipt| (receipt.partition, receipt.base_offset));
}

/// Returns the result of `work`, or an error if it takes longer than `limit`.
async fn with_timeout<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(limit, work).await.map_err(|_| Error::timeout(what, limit))
}

/// Returns the class `name` of `samsarrow.types`. The first call imports the class and stores it in `cache`.
fn class<'py>(py: Python<'py>, cache: &'static PyOnceLock<Py<PyAny>>, name: &str) -> PyResult<&'py Bound<'py, PyAny>> {
    let class = cache.get_or_try_init(py, || Ok::<_, PyErr>(py.import("samsarrow.types")?.getattr(name)?.unbind()));
    Ok(class?.bind(py))
}

fn metadata(py: Python<'_>, record: RecordMetadata) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let _guard = interpreter_guard::acquire(py);
    let class = class(py, &CLASS, "RecordMetadata")?;
    // `tuple.__new__` has the same effect as the class's own `__new__`, which is written in Python.
    let make = MAKE.get_or_try_init(py, || Ok::<_, PyErr>(py.get_type::<PyTuple>().getattr("__new__")?.unbind()))?;
    make.call1(py, (class, (&*record.topic, record.partition, record.offset, record.timestamp)))
}

fn receipts(py: Python<'_>, partitions: &[PartitionReceipt]) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let _guard = interpreter_guard::acquire(py);
    let class = class(py, &CLASS, "PartitionReceipt")?;
    let convert = |receipt: &PartitionReceipt| {
        class.call1((&*receipt.topic, receipt.partition, receipt.base_offset, receipt.count))
    };
    Ok(partitions.iter().map(convert).collect::<PyResult<Vec<_>>>()?.into_pyobject(py)?.unbind())
}

/// Builds the call of a callback from the metadata or the error of a record.
fn callback_call(
    py: Python<'_>,
    context: &Context,
    callback: Py<PyAny>,
    outcome: Result<RecordMetadata>,
) -> PyResult<callback_threads::PyCall> {
    let arguments = match outcome {
        Ok(record) => [metadata(py, record)?, py.None()],
        Err(error) => [py.None(), to_py_value(py, &error)],
    };
    context.call(py, callback, arguments.map(|argument| argument.into_bound(py)))
}
