//! The producer as Python calls it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use samsarrow_arrow::encode::Columns;
use samsarrow_client::config::ClientKind;
use samsarrow_client::error::Error;
use samsarrow_client::group::Identity;
use samsarrow_client::producer::{
    BatchDelivery as CoreBatch, Delivery as CoreDelivery, GroupMember, PartitionReceipt, Producer as Core,
    RecordMetadata, RecordRef, TrySendError,
};

use crate::arrow_ffi;
use crate::codec::{Names, format_of, value_columns};
use crate::config;
use crate::consumer::{Committed, Tp, given, tuple};
use crate::error::{to_py, to_py_value};
use crate::gate;
use crate::lanes::{CALLBACKS, Call};
use crate::runtime::{Owned, run, run_to_its_end, runtime, seconds};

/// Longer than any wait that ends.
const FOREVER: Duration = Duration::from_secs(1_000_000_000);

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

type Percentiles = (f64, f64, f64, f64, u64);
type Metrics = (Vec<(&'static str, u64)>, Percentiles, Percentiles, Vec<(String, u64)>);

/// Names and values of headers, as Python gives them.
type GivenHeaders<'py> = Vec<(String, Option<Bound<'py, PyAny>>)>;

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

    #[pyo3(signature = (topic, value, key, headers, partition, timestamp))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    fn send(
        &self,
        py: Python<'_>,
        topic: &str,
        value: Option<&Bound<'_, PyAny>>,
        key: Option<&Bound<'_, PyAny>>,
        headers: Option<GivenHeaders<'_>>,
        partition: Option<i32>,
        timestamp: Option<i64>,
    ) -> PyResult<Delivery> {
        let core = self.core.get(py)?;
        let headers = headers.unwrap_or_default().into_iter();
        let headers = headers.map(|(name, value)| {
            let value = payload(value.as_ref(), "a header's value")?;
            Ok((name, value.map(|value| Bytes::copy_from_slice(&value))))
        });
        let headers = headers.collect::<PyResult<Vec<_>>>()?;
        let (key, value) = (payload(key, "key")?, payload(value, "value")?);
        let (key, value) = (key.as_deref(), value.as_deref());
        let record = RecordRef { topic, partition, timestamp, key, value, headers: &headers };
        let delivery = match core.try_send(record) {
            Ok(delivery) => delivery,
            // Only a full buffer or an unknown topic makes the call wait.
            Err(TrySendError::Full | TrySendError::NeedsMetadata) => {
                let record = record.to_record();
                run(py, core.send(record))?
            }
            Err(TrySendError::Error(error)) => return Err(to_py(py, &error)),
        };
        Ok(Delivery { core: Owned::new("delivery", delivery) })
    }

    #[pyo3(signature = (topic, data, key, value, headers, partition, timestamp, value_format))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    fn send_batch(
        &self,
        py: Python<'_>,
        topic: &str,
        data: &Bound<'_, PyAny>,
        key: Option<String>,
        value: Option<Names>,
        headers: Option<String>,
        partition: Option<String>,
        timestamp: Option<String>,
        value_format: Option<&str>,
    ) -> PyResult<BatchDelivery> {
        let core = self.core.get(py)?;
        let mut columns = Columns { key, value: None, headers, partition, timestamp };
        let written = match (value_format, value) {
            (Some(format), value) => Some((format_of(py, format)?, value_columns(py, value)?)),
            (None, Some(Names::Several(_))) => {
                let text = "several columns make up a value only as value_format=\"json\" or \"ipc\"";
                return Err(to_py(py, &Error::configuration(text)));
            }
            (None, value) => {
                columns.value = value.and_then(Names::one);
                None
            }
        };
        let mut input = arrow_ffi::from_python(data)?;
        let mut sent = Vec::new();
        // One batch of the input after the other: memory holds what `buffer.memory` allows, not the whole input. A stream
        // may run Python, which may use any client: it is read outside of the runtime.
        while let Some(batch) = gate::detach_within(py, || input.next()) {
            let unread = |error| Error::configuration(format!("Arrow data cannot be read: {error}"));
            let batch = batch.map_err(|error| to_py(py, &unread(error)))?;
            // What was lent by Python is given back where Python is at hand, not on a thread of the core.
            let _lent = batch.clone();
            let columns = columns.clone();
            sent.push(match &written {
                None => run(py, core.send_batch(topic, batch, columns))?,
                Some((format, value)) => run(py, core.send_batch_written(topic, batch, columns, value, *format))?,
            });
        }
        Ok(BatchDelivery { parts: Owned::new("delivery", sent) })
    }

    #[pyo3(signature = (timeout))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let limit = seconds(py, timeout, FOREVER)?;
        let started = Instant::now();
        run(py, core.flush(timeout.map(|_| limit)))?;
        settle_callbacks(py, limit.saturating_sub(started.elapsed()))
    }

    fn partitions_for(&self, py: Python<'_>, topic: &str) -> PyResult<Vec<Tp>> {
        let core = self.core.get(py)?;
        Ok(run(py, core.partitions_for(topic))?.iter().map(tuple).collect())
    }

    /// Counts by name, latencies in seconds as (p50, p95, p99, largest, count), and records by topic.
    fn metrics(&self, py: Python<'_>) -> PyResult<Metrics> {
        let found = self.core.get(py)?.metrics();
        let counts = vec![
            ("queued_records", found.queued_records),
            ("queued_bytes", found.queued_bytes),
            ("records", found.records),
            ("bytes", found.bytes),
            ("batches", found.batches),
            ("requests", found.requests),
            ("retries", found.retries),
            ("failed_records", found.failed_records),
        ];
        let latencies = [found.request_latency, found.delivery_latency].map(|latency| {
            let [p50, p95, p99, max] = [latency.p50, latency.p95, latency.p99, latency.max].map(|t| t.as_secs_f64());
            (p50, p95, p99, max, latency.count)
        });
        let topics = found.topics.iter().map(|(name, records)| (name.to_string(), *records)).collect();
        let [request, delivery] = latencies;
        Ok((counts, request, delivery, topics))
    }

    fn partition_count(&self, py: Python<'_>, topic: &str) -> PyResult<usize> {
        let core = self.core.get(py)?;
        Ok(run(py, core.partitions_for(topic))?.len())
    }

    #[pyo3(signature = (timeout))]
    fn init_transactions(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let timeout = timeout.map(|given| seconds(py, Some(given), FOREVER)).transpose()?;
        run(py, core.init_transactions(timeout))
    }

    fn begin_transaction(&self, py: Python<'_>) -> PyResult<()> {
        run(py, self.core.get(py)?.begin_transaction())
    }

    #[pyo3(signature = (timeout))]
    fn commit_transaction(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let timeout = timeout.map(|given| seconds(py, Some(given), FOREVER)).transpose()?;
        run(py, core.commit_transaction(timeout))
    }

    #[pyo3(signature = (timeout))]
    fn abort_transaction(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let timeout = timeout.map(|given| seconds(py, Some(given), FOREVER)).transpose()?;
        run(py, core.abort_transaction(timeout))
    }

    /// Offsets of a group; `who` is its name, the member, its generation and its instance id.
    #[pyo3(signature = (offsets, who, timeout))]
    fn send_offsets_to_transaction(
        &self,
        py: Python<'_>,
        offsets: Vec<(Tp, Committed)>,
        who: (String, String, i32, Option<String>),
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let core = self.core.get(py)?;
        let timeout = timeout.map(|given| seconds(py, Some(given), FOREVER)).transpose()?;
        let (group, member_id, generation, instance_id) = who;
        let who = GroupMember { group, member: Identity { member_id, generation, instance_id } };
        run(py, core.send_offsets_to_transaction(given(offsets), who, timeout))
    }

    /// Goes on in the background if a signal's handler raises.
    #[pyo3(signature = (timeout))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let core = Arc::clone(&*self.core.get(py)?);
        let limit = seconds(py, timeout, FOREVER)?;
        let started = Instant::now();
        let closed = run_to_its_end(py, async move { core.close(limit).await });
        settle_callbacks(py, limit.saturating_sub(started.elapsed()))?;
        closed
    }
}

/// Waits until the callbacks of what is done were called.
fn settle_callbacks(py: Python<'_>, limit: Duration) -> PyResult<()> {
    let Some(lane) = CALLBACKS.begun() else { return Ok(()) };
    run(py, async {
        // What is not called by then is called later.
        let _ = tokio::time::timeout(limit, lane.settled()).await;
        Ok(())
    })
}

/// See `samsarrow.Delivery`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Delivery {
    core: Owned<CoreDelivery>,
}

#[pymethods]
impl Delivery {
    /// Waits for the broker's answer.
    #[pyo3(signature = (timeout=None))]
    fn result(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let core = self.core.get(py)?;
        let limit = seconds(py, timeout, FOREVER)?;
        let landed = match core.peek() {
            Some(outcome) => outcome.map_err(|error| to_py(py, &error))?,
            None => run(py, within(limit, "the delivery", core.wait()))?,
        };
        metadata(py, landed)
    }

    /// Whether the result is there.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.core.get(py)?.is_done())
    }

    /// Calls `callback(metadata, error)` once, on a thread of the client's; one of the two is None.
    fn add_done_callback(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let lane = CALLBACKS.get(py)?;
        if lane.is_crowded() {
            run(py, async {
                lane.room().await;
                Ok(())
            })?;
        }
        core.on_done(Box::new(move |outcome| {
            lane.push(usize::MAX, move |py| called(py, callback, outcome));
        }));
        Ok(())
    }

    fn __await__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        wait_in_asyncio(slf.as_any())
    }
}

/// See `samsarrow.BatchDelivery`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct BatchDelivery {
    parts: Owned<Vec<CoreBatch>>,
}

#[pymethods]
impl BatchDelivery {
    /// Waits for the brokers' answers to all rows.
    #[pyo3(signature = (timeout=None))]
    fn result(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<Py<PyAny>>> {
        let parts = self.parts.get(py)?;
        let limit = seconds(py, timeout, FOREVER)?;
        let all = async {
            let mut receipts: Vec<PartitionReceipt> = Vec::new();
            let mut failure = None;
            for part in parts.iter() {
                match part.wait().await {
                    Ok(more) => join(&mut receipts, more),
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            failure.map_or(Ok(receipts), Err)
        };
        let landed = run(py, within(limit, "the delivery of all rows", all))?;
        landed.iter().map(|receipt| build_receipt(py, receipt)).collect()
    }

    /// Whether every row has its result.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.parts.get(py)?.iter().all(CoreBatch::is_done))
    }

    /// Not false for want of rows: it is a result that is awaited.
    #[allow(clippy::unused_self, reason = "Python's protocol")]
    fn __bool__(&self) -> bool {
        true
    }

    /// Number of rows.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.parts.get(py)?.iter().map(CoreBatch::len).sum::<u64>() as usize)
    }
}

/// Receipts of one partition that follow each other become one.
fn join(receipts: &mut Vec<PartitionReceipt>, more: Vec<PartitionReceipt>) {
    for next in more {
        let last = receipts.iter_mut().rev().find(|receipt| receipt.partition == next.partition);
        match last {
            Some(last) if last.base_offset >= 0 && last.base_offset + last.count as i64 == next.base_offset => {
                last.count += next.count;
            }
            _ => receipts.push(next),
        }
    }
    receipts.sort_by_key(|receipt| (receipt.partition, receipt.base_offset));
}

async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = samsarrow_client::error::Result<T>>,
) -> samsarrow_client::error::Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(Error::timeout(what, limit)))
}

fn types<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("samsarrow.types").map(Bound::unbind))?;
    module.bind(py).getattr(name)
}

fn metadata(py: Python<'_>, landed: RecordMetadata) -> PyResult<Py<PyAny>> {
    let class = types(py, "RecordMetadata")?;
    class.call1((&*landed.topic, landed.partition, landed.offset, landed.timestamp)).map(Bound::unbind)
}

fn build_receipt(py: Python<'_>, receipt: &PartitionReceipt) -> PyResult<Py<PyAny>> {
    let class = types(py, "PartitionReceipt")?;
    class.call1((receipt.partition, receipt.base_offset, receipt.count)).map(Bound::unbind)
}

/// The call of a callback.
fn called(
    py: Python<'_>,
    callback: Py<PyAny>,
    outcome: samsarrow_client::error::Result<RecordMetadata>,
) -> PyResult<Call> {
    let arguments = match outcome {
        Ok(landed) => (metadata(py, landed)?, py.None()),
        Err(error) => (py.None(), to_py_value(py, &error)),
    };
    Ok((callback, arguments.into_pyobject(py)?.unbind()))
}

fn wait_in_asyncio<'py>(delivery: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    delivery.py().import("samsarrow.producer")?.getattr("wait_in_asyncio")?.call1((delivery,))
}
