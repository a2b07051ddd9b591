//! The consumer as Python calls it.

use std::sync::Arc;
use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use samsarrow_bridge::arrow_ffi;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::deadline::Deadline;
use samsarrow_bridge::error::{to_py, to_py_value};
use samsarrow_bridge::runtime::{Owned, runtime, seconds};
use samsarrow_client::config::ClientKind;
use samsarrow_client::consumer::{Consumer as Core, Polled, SeekTarget};
use samsarrow_client::fetcher::RowsEnd;
use samsarrow_client::group::Completed;
use samsarrow_client::group::subscription::Wanted;
use samsarrow_client::types::OffsetAndMetadata;
use samsarrow_wire::messages::Uuid;

use crate::assignor;
use crate::config;
use crate::metrics::{Metrics, instance_id};
use crate::partitions::{
    Committed, End, Failures, Tp, batches, committed, failures, given, offsets, tp, tps, tuple, tuples,
};
use crate::rebalance::{Event, named};

/// See `samsarrow.Consumer`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Consumer {
    core: Owned<Arc<Core>>,
}

/// An asynchronous commit that is done: its number, what failed, the exception where nothing was committed.
type Done = (u64, Failures, Option<Py<PyAny>>);

/// A partition of a bounded read, with its position and its end.
type Open = (Tp, Option<i64>, i64);

impl Consumer {
    fn arc(&self, py: Python<'_>) -> PyResult<Arc<Core>> {
        Ok(Arc::clone(&*self.core.get(py)?))
    }

    fn seek_to(&self, py: Python<'_>, partitions: &[Tp], target: SeekTarget) -> PyResult<Call> {
        let (core, partitions) = (self.arc(py)?, tps(partitions));
        let timeout = core.default_timeout();
        Ok(Call::done(async move { core.seek_to(&partitions, target, timeout).await }))
    }
}

#[pymethods]
impl Consumer {
    #[new]
    fn new(
        py: Python<'_>,
        options: Vec<(String, Bound<'_, PyAny>)>,
        assignors: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let options = config::parse(py, ClientKind::Consumer, options)?;
        let assignors = assignors.iter().map(assignor::of).collect::<PyResult<_>>()?;
        let core = Core::with_assignors(&options, assignors).map_err(|error| to_py(py, &error))?;
        Ok(Self { core: Owned::new("consumer", Arc::new(core)) })
    }

    #[pyo3(signature = (timeout))]
    fn client_instance_id(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = Arc::clone(&*self.core.get(py)?);
        let limit = seconds(py, timeout, core.default_timeout())?;
        Ok(instance_id(async move { core.client_instance_id(limit).await }))
    }

    fn metrics(&self, py: Python<'_>) -> PyResult<Metrics> {
        Ok(Metrics::new(self.core.get(py)?.metrics()))
    }

    /// Topics, or a pattern.
    fn subscribe(&self, py: Python<'_>, topics: Vec<String>, pattern: Option<&str>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let runtime = runtime(py)?;
        let _inside = runtime.enter();
        let wanted = match pattern {
            Some(pattern) => Wanted::pattern(pattern),
            None => Wanted::topics(topics),
        };
        wanted.and_then(|wanted| core.subscribe(wanted)).map_err(|error| to_py(py, &error))
    }

    /// Topics and pattern; neither without a subscription.
    fn subscription(&self, py: Python<'_>) -> PyResult<(Vec<String>, Option<String>)> {
        let wanted = self.core.get(py)?.subscription();
        Ok(match wanted.as_deref() {
            None => (Vec::new(), None),
            Some(Wanted::Topics(names)) => (names.iter().cloned().collect(), None),
            Some(wanted) => (Vec::new(), wanted.given_pattern().map(str::to_owned)),
        })
    }

    fn unsubscribe(&self, py: Python<'_>) -> PyResult<()> {
        self.core.get(py)?.unsubscribe().map_err(|error| to_py(py, &error))
    }

    fn assign(&self, py: Python<'_>, partitions: Vec<Tp>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let runtime = runtime(py)?;
        let _inside = runtime.enter();
        core.assign(&tps(&partitions)).map_err(|error| to_py(py, &error))
    }

    fn assignment(&self, py: Python<'_>) -> PyResult<Vec<Tp>> {
        Ok(tuples(&self.core.get(py)?.assignment()))
    }

    /// `default.api.timeout.ms`, in seconds.
    fn default_timeout(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.core.get(py)?.default_timeout().as_secs_f64())
    }

    /// Begins a poll: the program has processed the rows of earlier polls. Returns its deadline.
    #[pyo3(signature = (timeout))]
    fn begin_poll(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Deadline> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, Duration::ZERO)?;
        let runtime = runtime(py)?;
        let _inside = runtime.enter();
        core.begin_poll().map_err(|error| to_py(py, &error))?;
        Ok(Deadline::after(timeout))
    }

    /// What is there now: rows; a rebalance that the listener is to learn of; true: asynchronous commits are done;
    /// None: nothing. Python calls the listener, so that nothing of the user's runs on top of this code.
    ///
    /// Rows have the positions after them in the schema's metadata; without `rows`, none are taken.
    fn look(&self, py: Python<'_>, rows: bool) -> PyResult<Option<Py<PyAny>>> {
        let core = self.core.get(py)?;
        let found = if rows { core.look() } else { core.look_for_events() };
        Ok(match found.map_err(|error| to_py(py, &error))? {
            Some(Polled::Rows(rows)) => {
                let batch = rows.with_metadata().and_then(|batch| batch.map_or_else(|| core.nothing(), Ok));
                Some(arrow_ffi::to_pyarrow(py, &batch.map_err(|error| to_py(py, &error))?)?.unbind())
            }
            Some(Polled::Rebalance(event)) => Some(Py::new(py, Event(event))?.into_any()),
            Some(Polled::Committed) => Some(true.into_pyobject(py)?.to_owned().into_any().unbind()),
            None => None,
        })
    }

    /// Until `look` may find something.
    fn ready(&self, py: Python<'_>, timeout: f64) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, Some(timeout), Duration::ZERO)?;
        Ok(Call::done(async move {
            core.ready(timeout).await;
            Ok(())
        }))
    }

    /// What has to be done before the listener is notified; gives false when there was no time for it.
    fn prepare(&self, py: Python<'_>, event: &Event, timeout: f64) -> PyResult<Call> {
        let (core, event) = (self.arc(py)?, event.0.clone());
        let timeout = seconds(py, Some(timeout), Duration::ZERO)?;
        let work = async move { core.prepare(&event, timeout).await };
        Ok(Call::new(work, |py, done| Ok(done.into_pyobject(py)?.to_owned().into_any().unbind())))
    }

    /// The listener was notified.
    fn acknowledge(&self, py: Python<'_>, event: &Event) -> PyResult<()> {
        self.core.get(py)?.acknowledge(&event.0);
        Ok(())
    }

    /// The listener is not notified: the next poll does it.
    fn give_back(&self, py: Python<'_>) -> PyResult<()> {
        self.core.get(py)?.give_back();
        Ok(())
    }

    /// No rows.
    fn nothing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let nothing = self.core.get(py)?.nothing().map_err(|error| to_py(py, &error))?;
        arrow_ffi::to_pyarrow(py, &nothing)
    }

    /// Asynchronous commits that are done, once each.
    fn take_completed(&self, py: Python<'_>) -> PyResult<Vec<Done>> {
        let one = |completed: Completed| match completed.outcome {
            Ok(outcomes) => (completed.id, failures(py, outcomes), None),
            Err(error) => (completed.id, Failures::new(), Some(to_py_value(py, &error))),
        };
        Ok(self.core.get(py)?.take_completed().into_iter().map(one).collect())
    }

    fn enforce_rebalance(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        self.core.get(py)?.enforce_rebalance(reason).map_err(|error| to_py(py, &error))
    }

    fn wakeup(&self, py: Python<'_>) -> PyResult<()> {
        self.core.get(py)?.wakeup();
        Ok(())
    }

    /// An empty batch: its schema is the consumer's.
    fn empty<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = self.core.get(py)?.schema();
        arrow_ffi::to_pyarrow(py, &arrow_array::RecordBatch::new_empty(schema))
    }

    /// Commits; gives each partition that failed, with its exception.
    #[pyo3(signature = (offsets, timeout))]
    fn commit(&self, py: Python<'_>, offsets: Option<Vec<(Tp, Committed)>>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let work = async move { core.commit_each(offsets.map(given), timeout).await };
        Ok(Call::new(work, |py, outcomes| object(py, failures(py, outcomes))))
    }

    /// Commits in the background; the number comes again when it is done.
    #[pyo3(signature = (offsets))]
    fn commit_async(&self, py: Python<'_>, offsets: Option<Vec<(Tp, Committed)>>) -> PyResult<u64> {
        let core = self.core.get(py)?;
        let runtime = runtime(py)?;
        let _inside = runtime.enter();
        core.commit_async(offsets.map(given)).map_err(|error| to_py(py, &error))
    }

    /// Offsets that committing the rows of Arrow data means.
    fn offsets_after(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Vec<(Tp, Committed)>> {
        let batches = batches(py, data)?;
        let offsets = self.core.get(py)?.offsets_after(&batches).map_err(|error| to_py(py, &error))?;
        Ok(committed(offsets))
    }

    /// As `offsets_after`, for what `ends_of` has returned.
    fn offsets_of_ends(&self, py: Python<'_>, ends: Vec<End>) -> PyResult<Vec<(Tp, Committed)>> {
        let one = |(at, (offset, metadata, leader_epoch), id): End| {
            (tp(&at), RowsEnd { at: OffsetAndMetadata { offset, metadata, leader_epoch }, topic_id: Uuid(id) })
        };
        Ok(committed(self.core.get(py)?.offsets_of_ends(ends.into_iter().map(one).collect())))
    }

    fn store_offsets(&self, py: Python<'_>, offsets: Vec<(Tp, Committed)>) -> PyResult<()> {
        self.core.get(py)?.store_offsets(given(offsets)).map_err(|error| to_py(py, &error))
    }

    /// Group, member id, generation (or epoch) and instance id.
    fn group_metadata(&self, py: Python<'_>) -> PyResult<(String, String, i32, Option<String>)> {
        let (group, who) = self.core.get(py)?.group_metadata().map_err(|error| to_py(py, &error))?;
        Ok((group, who.member_id, who.generation, who.instance_id))
    }

    /// What `close` and `unsubscribe` have to pass to the listener: a kind and partitions.
    fn to_give_up(&self, py: Python<'_>) -> PyResult<Option<(&'static str, Vec<Tp>)>> {
        Ok(self.core.get(py)?.to_give_up().as_ref().map(named))
    }

    /// With automatic commits, commits what is finished; waits for asynchronous commits in any case. Gives the seconds
    /// that are left.
    #[pyo3(signature = (everything, timeout))]
    fn commit_finished(&self, py: Python<'_>, everything: bool, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let work = async move { Ok(core.commit_finished(everything, timeout).await.as_secs_f64()) };
        Ok(Call::new(work, object))
    }

    #[pyo3(signature = (partitions, stable, timeout))]
    fn committed(
        &self,
        py: Python<'_>,
        partitions: Vec<Tp>,
        stable: Option<bool>,
        timeout: Option<f64>,
    ) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let work = async move { core.committed(&tps(&partitions), stable, timeout).await };
        Ok(Call::new(work, |py, found| {
            let one = |found: OffsetAndMetadata| (found.offset, found.metadata, found.leader_epoch);
            let found = found.into_iter().map(|(tp, found)| (tuple(&tp), found.map(one)));
            object(py, found.collect::<Vec<(Tp, Option<Committed>)>>())
        }))
    }

    #[pyo3(signature = (partition, timeout))]
    fn position(&self, py: Python<'_>, partition: Tp, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(Call::new(async move { core.position(&tp(&partition), timeout).await }, object))
    }

    #[pyo3(signature = (partitions, timeout))]
    fn beginning_offsets(&self, py: Python<'_>, partitions: Vec<Tp>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let work = async move { core.beginning_offsets(&tps(&partitions), timeout).await };
        Ok(Call::new(work, |py, found| object(py, offsets(found))))
    }

    #[pyo3(signature = (partitions, timeout))]
    fn end_offsets(&self, py: Python<'_>, partitions: Vec<Tp>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let work = async move { core.end_offsets(&tps(&partitions), timeout).await };
        Ok(Call::new(work, |py, found| object(py, offsets(found))))
    }

    /// Offset, timestamp and leader epoch of the first record at or after each time.
    #[pyo3(signature = (times, timeout))]
    fn offsets_for_times(&self, py: Python<'_>, times: Vec<(Tp, i64)>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let times: Vec<_> = times.iter().map(|(at, time)| (tp(at), *time)).collect();
        let work = async move { core.offsets_for_times(&times, timeout).await };
        Ok(Call::new(work, |py, found| {
            let found = found.into_iter().map(|(tp, found)| {
                (tuple(&tp), found.map(|found| (found.offset, found.timestamp, found.leader_epoch)))
            });
            object(py, found.collect::<Vec<_>>())
        }))
    }

    #[pyo3(signature = (timeout))]
    fn lag(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(Call::new(async move { core.lag(timeout).await }, |py, found| object(py, offsets(found))))
    }

    #[pyo3(signature = (topic, timeout))]
    fn partitions_for(&self, py: Python<'_>, topic: String, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let work = async move { core.partitions_for(&topic, timeout).await };
        Ok(Call::new(work, |py, found| object(py, tuples(&found))))
    }

    /// The epoch is that of the record before `offset`.
    #[pyo3(signature = (partition, offset, leader_epoch))]
    fn seek(&self, py: Python<'_>, partition: Tp, offset: i64, leader_epoch: Option<i32>) -> PyResult<()> {
        let core = self.core.get(py)?;
        core.seek_after(&tp(&partition), offset, leader_epoch).map_err(|error| to_py(py, &error))
    }

    /// Returns rows of a partition below this offset only; None lifts that.
    #[pyo3(signature = (partition, until))]
    fn read_until(&self, py: Python<'_>, partition: Tp, until: Option<i64>) -> PyResult<()> {
        self.core.get(py)?.read_until(&tp(&partition), until).map_err(|error| to_py(py, &error))
    }

    fn lift_ends(&self, py: Python<'_>) -> PyResult<()> {
        self.core.get(py)?.lift_ends();
        Ok(())
    }

    /// Partitions that are not at their ends, with positions and ends, and partitions without an end.
    fn bounds(&self, py: Python<'_>) -> PyResult<(Vec<Open>, Vec<Tp>)> {
        let bounds = self.core.get(py)?.bounds();
        let open = bounds.open.into_iter().map(|(tp, position, end)| (tuple(&tp), position, end));
        Ok((open.collect(), tuples(&bounds.unbounded)))
    }

    fn seek_to_beginning(&self, py: Python<'_>, partitions: Vec<Tp>) -> PyResult<Call> {
        self.seek_to(py, &partitions, SeekTarget::Beginning)
    }

    fn seek_to_end(&self, py: Python<'_>, partitions: Vec<Tp>) -> PyResult<Call> {
        self.seek_to(py, &partitions, SeekTarget::End)
    }

    fn seek_to_committed(&self, py: Python<'_>, partitions: Vec<Tp>) -> PyResult<Call> {
        self.seek_to(py, &partitions, SeekTarget::Committed)
    }

    /// The time is in milliseconds.
    fn seek_to_timestamp(&self, py: Python<'_>, partitions: Vec<Tp>, timestamp: i64) -> PyResult<Call> {
        self.seek_to(py, &partitions, SeekTarget::Timestamp(timestamp))
    }

    /// Returns whether the next row of a partition has this offset, and may be returned: it is assigned and not paused.
    fn is_next(&self, py: Python<'_>, partition: Tp, offset: i64) -> PyResult<bool> {
        Ok(self.core.get(py)?.is_next(&tp(&partition), offset))
    }

    fn pause(&self, py: Python<'_>, partitions: Vec<Tp>) -> PyResult<()> {
        self.core.get(py)?.pause(&tps(&partitions)).map_err(|error| to_py(py, &error))
    }

    fn resume(&self, py: Python<'_>, partitions: Vec<Tp>) -> PyResult<()> {
        self.core.get(py)?.resume(&tps(&partitions)).map_err(|error| to_py(py, &error))
    }

    fn paused(&self, py: Python<'_>) -> PyResult<Vec<Tp>> {
        Ok(tuples(&self.core.get(py)?.paused()))
    }

    /// Goes on in the background if a signal's handler raises.
    #[pyo3(signature = (timeout))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let closing = async move {
            core.close(timeout).await;
            Ok(())
        };
        Ok(Call::done(closing).going_on())
    }

    /// Waits for the end of a `close` that goes on in the background.
    #[pyo3(signature = (timeout))]
    fn closed(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(Call::done(async move {
            core.closed(timeout).await;
            Ok(())
        }))
    }
}

/// What Python gets of plain values.
fn object<T: for<'py> IntoPyObject<'py>>(py: Python<'_>, value: T) -> PyResult<Py<PyAny>> {
    value.into_py_any(py)
}
