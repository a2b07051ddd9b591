//! The consumer of `samsarrow._core`.

use std::sync::Arc;
use std::time::Duration;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use samsarrow_bridge::arrow_ffi;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::deadline::Deadline;
use samsarrow_bridge::delivery::FOREVER;
use samsarrow_bridge::error::{to_py, to_py_value};
use samsarrow_bridge::runtime::{Owned, runtime, seconds};
use samsarrow_client::config::ClientKind;
use samsarrow_client::consumer::{Consumer as Core, Polled, SeekTarget};
use samsarrow_client::fetcher::RowsEnd;
use samsarrow_client::group::Completed;
use samsarrow_client::group::subscription::Subscription;
use samsarrow_client::types::OffsetAndMetadata;
use samsarrow_wire::messages::Uuid;

use crate::assignor;
use crate::config;
use crate::conversions::{
    Committed, Failures, PyRowsEnd, Tp, batches, committed_tuples, failures, offset_tuples, to_offsets, tp, tps, tuple,
    tuples,
};
use crate::metrics::{Metrics, instance_id};
use crate::rebalance::{RebalanceEvent, kind_and_partitions};

/// See `samsarrow.Consumer`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Consumer {
    core: Owned<Arc<Core>>,
}

/// A completed asynchronous commit: its number, the failed partitions, and an exception if nothing was committed.
type CompletedCommit = (u64, Failures, Option<Py<PyAny>>);

/// A partition of a bounded read, its position, and its end offset.
type BoundedPartition = (Tp, Option<i64>, i64);

impl Consumer {
    fn arc(&self, py: Python<'_>) -> PyResult<Arc<Core>> {
        Ok(Arc::clone(&*self.core.get(py)?))
    }

    fn seek_to(&self, py: Python<'_>, partitions: &[Tp], target: SeekTarget, timeout: Option<f64>) -> PyResult<Call> {
        let (core, partitions) = (self.arc(py)?, tps(partitions));
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(Call::without_result(async move { core.seek_to(&partitions, target, timeout).await }))
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
        let assignors = assignors.iter().map(assignor::wrap).collect::<PyResult<_>>()?;
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

    /// Subscribes to topics, or to a pattern if one is given.
    fn subscribe(&self, py: Python<'_>, topics: Vec<String>, pattern: Option<&str>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let runtime = runtime(py)?;
        let _inside = runtime.enter();
        let subscription = match pattern {
            Some(pattern) => Subscription::pattern(pattern),
            None => Subscription::topics(topics),
        };
        subscription.and_then(|subscription| core.subscribe(subscription)).map_err(|error| to_py(py, &error))
    }

    /// Returns the topics and the pattern of the subscription.
    fn subscription(&self, py: Python<'_>) -> PyResult<(Vec<String>, Option<String>)> {
        let subscription = self.core.get(py)?.subscription();
        Ok(match subscription.as_deref() {
            None => (Vec::new(), None),
            Some(Subscription::Topics(names)) => (names.iter().cloned().collect(), None),
            Some(subscription) => (Vec::new(), subscription.pattern_text().map(str::to_owned)),
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

    /// Returns `default.api.timeout.ms`, in seconds.
    fn default_timeout(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.core.get(py)?.default_timeout().as_secs_f64())
    }

    /// Starts a poll and returns its deadline. Starting a poll marks the rows of earlier polls as processed.
    #[pyo3(signature = (timeout))]
    fn begin_poll(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Deadline> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, Duration::ZERO)?;
        let runtime = runtime(py)?;
        let _inside = runtime.enter();
        core.begin_poll().map_err(|error| to_py(py, &error))?;
        Ok(Deadline::after(timeout))
    }

    /// Returns available rows, a rebalance for the listener, or True if asynchronous commits have completed. Returns
    /// None if none of these is available. Python calls the listener, so that user code has no Rust frames below it.
    ///
    /// The schema's metadata contains the positions after the rows. If `rows` is false, no rows are returned. `limit` is
    /// the maximum number of rows, by default `max.poll.records`.
    #[pyo3(signature = (rows, limit))]
    fn try_poll(&self, py: Python<'_>, rows: bool, limit: Option<usize>) -> PyResult<Option<Py<PyAny>>> {
        let core = self.core.get(py)?;
        let polled = match limit {
            _ if !rows => core.try_poll_events(),
            Some(limit) => core.try_poll_at_most(limit),
            None => core.try_poll(),
        };
        Ok(match polled.map_err(|error| to_py(py, &error))? {
            Some(Polled::Rows(rows)) => {
                let batch = rows.with_metadata().and_then(|batch| batch.map_or_else(|| core.empty_batch(), Ok));
                Some(arrow_ffi::to_pyarrow(py, &batch.map_err(|error| to_py(py, &error))?)?.unbind())
            }
            Some(Polled::Rebalance(event)) => Some(Py::new(py, RebalanceEvent(event))?.into_any()),
            Some(Polled::Committed) => Some(true.into_pyobject(py)?.to_owned().into_any().unbind()),
            None => None,
        })
    }

    /// Waits until `try_poll` may return something, for at most `timeout` seconds.
    fn wait_ready(&self, py: Python<'_>, timeout: f64) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, Some(timeout), Duration::ZERO)?;
        Ok(Call::at_most(timeout, async move { core.wait_ready(FOREVER).await }))
    }

    /// Prepares the call of the listener: commits before a revocation if commits are automatic, and starts fetching
    /// newly assigned partitions. Returns false if `timeout` has passed.
    fn prepare(&self, py: Python<'_>, event: &RebalanceEvent, timeout: f64) -> PyResult<Call> {
        let (core, event) = (self.arc(py)?, event.0.clone());
        let timeout = seconds(py, Some(timeout), Duration::ZERO)?;
        let work = async move { core.prepare(&event, timeout).await };
        Ok(Call::new(work, |py, done| Ok(done.into_pyobject(py)?.to_owned().into_any().unbind())))
    }

    /// Records that the listener was called.
    fn acknowledge(&self, py: Python<'_>, event: &RebalanceEvent) -> PyResult<()> {
        self.core.get(py)?.acknowledge(&event.0);
        Ok(())
    }

    /// Records that the listener was not called, so that the next poll returns the rebalance again.
    fn requeue_rebalance(&self, py: Python<'_>) -> PyResult<()> {
        self.core.get(py)?.requeue();
        Ok(())
    }

    /// Returns a batch without rows, for a poll that timed out.
    fn empty_batch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let batch = self.core.get(py)?.empty_batch().map_err(|error| to_py(py, &error))?;
        arrow_ffi::to_pyarrow(py, &batch)
    }

    /// Returns the asynchronous commits that have completed since the last call.
    fn take_completed(&self, py: Python<'_>) -> PyResult<Vec<CompletedCommit>> {
        let convert = |completed: Completed| match completed.outcome {
            Ok(outcomes) => (completed.id, failures(py, outcomes), None),
            Err(error) => (completed.id, Failures::new(), Some(to_py_value(py, &error))),
        };
        Ok(self.core.get(py)?.take_completed().into_iter().map(convert).collect())
    }

    fn enforce_rebalance(&self, py: Python<'_>, reason: &str) -> PyResult<()> {
        self.core.get(py)?.enforce_rebalance(reason).map_err(|error| to_py(py, &error))
    }

    fn wakeup(&self, py: Python<'_>) -> PyResult<()> {
        self.core.get(py)?.wakeup();
        Ok(())
    }

    /// Returns an empty batch with the consumer's schema.
    fn empty<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = self.core.get(py)?.schema();
        arrow_ffi::to_pyarrow(py, &arrow_array::RecordBatch::new_empty(schema))
    }

    /// Commits offsets, and returns the failed partitions with their exceptions.
    #[pyo3(signature = (offsets, timeout))]
    fn commit(&self, py: Python<'_>, offsets: Option<Vec<(Tp, Committed)>>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let work = async move { core.commit_each(offsets.map(to_offsets), timeout).await };
        Ok(Call::new(work, |py, outcomes| to_object(py, failures(py, outcomes))))
    }

    /// Commits in the background. Returns the number under which `take_completed` reports the commit.
    #[pyo3(signature = (offsets))]
    fn commit_async(&self, py: Python<'_>, offsets: Option<Vec<(Tp, Committed)>>) -> PyResult<u64> {
        let core = self.core.get(py)?;
        let runtime = runtime(py)?;
        let _inside = runtime.enter();
        core.commit_async(offsets.map(to_offsets)).map_err(|error| to_py(py, &error))
    }

    /// Returns the offsets to commit once the rows of Arrow data are processed.
    fn offsets_after(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Vec<(Tp, Committed)>> {
        let batches = batches(py, data)?;
        let offsets = self.core.get(py)?.offsets_after(&batches).map_err(|error| to_py(py, &error))?;
        Ok(committed_tuples(offsets))
    }

    /// Like `offsets_after`, but for the results of `ends_of`.
    fn offsets_of_ends(&self, py: Python<'_>, ends: Vec<PyRowsEnd>) -> PyResult<Vec<(Tp, Committed)>> {
        let convert = |(pair, (offset, metadata, leader_epoch), id): PyRowsEnd| {
            (tp(&pair), RowsEnd { at: OffsetAndMetadata { offset, metadata, leader_epoch }, topic_id: Uuid(id) })
        };
        Ok(committed_tuples(self.core.get(py)?.offsets_of_ends(ends.into_iter().map(convert).collect())))
    }

    fn store_offsets(&self, py: Python<'_>, offsets: Vec<(Tp, Committed)>) -> PyResult<()> {
        self.core.get(py)?.store_offsets(to_offsets(offsets)).map_err(|error| to_py(py, &error))
    }

    /// Returns the group, the member id, the generation (or member epoch) and the instance id.
    fn group_metadata(&self, py: Python<'_>) -> PyResult<(String, String, i32, Option<String>)> {
        let (group, member) = self.core.get(py)?.group_metadata().map_err(|error| to_py(py, &error))?;
        Ok((group, member.member_id, member.generation, member.instance_id))
    }

    /// Returns the known ids of the assigned topics.
    fn topic_ids(&self, py: Python<'_>) -> PyResult<Vec<(String, [u8; 16])>> {
        let ids = self.core.get(py)?.topic_ids();
        Ok(ids.into_iter().map(|(topic, id)| (topic.to_string(), id.0)).collect())
    }

    /// Returns the kind and partitions of the rebalance that the listener must receive before `close` or `unsubscribe`.
    fn final_rebalance(&self, py: Python<'_>) -> PyResult<Option<(&'static str, Vec<Tp>)>> {
        Ok(self.core.get(py)?.final_rebalance().as_ref().map(kind_and_partitions))
    }

    /// Waits for asynchronous commits. With automatic commits, first commits the processed rows and, if `everything`,
    /// also the rows of the last poll. Returns the remaining seconds.
    #[pyo3(signature = (everything, timeout))]
    fn commit_finished(&self, py: Python<'_>, everything: bool, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let work = async move { Ok(core.commit_finished(everything, timeout).await.as_secs_f64()) };
        Ok(Call::new(work, to_object))
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
        Ok(Call::new(work, |py, offsets| {
            let convert = |offset: OffsetAndMetadata| (offset.offset, offset.metadata, offset.leader_epoch);
            let offsets = offsets.into_iter().map(|(tp, offset)| (tuple(&tp), offset.map(convert)));
            to_object(py, offsets.collect::<Vec<(Tp, Option<Committed>)>>())
        }))
    }

    #[pyo3(signature = (partition, timeout))]
    fn position(&self, py: Python<'_>, partition: Tp, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(Call::new(async move { core.position(&tp(&partition), timeout).await }, to_object))
    }

    #[pyo3(signature = (partitions, timeout))]
    fn beginning_offsets(&self, py: Python<'_>, partitions: Vec<Tp>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let work = async move { core.beginning_offsets(&tps(&partitions), timeout).await };
        Ok(Call::new(work, |py, offsets| to_object(py, offset_tuples(offsets))))
    }

    #[pyo3(signature = (partitions, timeout))]
    fn end_offsets(&self, py: Python<'_>, partitions: Vec<Tp>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let work = async move { core.end_offsets(&tps(&partitions), timeout).await };
        Ok(Call::new(work, |py, offsets| to_object(py, offset_tuples(offsets))))
    }

    /// Returns for each partition the offset, timestamp and leader epoch of the first record at or after the
    /// partition's time.
    #[pyo3(signature = (times, timeout))]
    fn offsets_for_times(&self, py: Python<'_>, times: Vec<(Tp, i64)>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let times: Vec<_> = times.iter().map(|(pair, time)| (tp(pair), *time)).collect();
        let work = async move { core.offsets_for_times(&times, timeout).await };
        Ok(Call::new(work, |py, offsets| {
            let offsets = offsets.into_iter().map(|(tp, offset)| {
                (tuple(&tp), offset.map(|offset| (offset.offset, offset.timestamp, offset.leader_epoch)))
            });
            to_object(py, offsets.collect::<Vec<_>>())
        }))
    }

    #[pyo3(signature = (timeout))]
    fn lag(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(Call::new(async move { core.lag(timeout).await }, |py, offsets| to_object(py, offset_tuples(offsets))))
    }

    #[pyo3(signature = (topic, timeout))]
    fn partitions_for(&self, py: Python<'_>, topic: String, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let work = async move { core.partitions_for(&topic, timeout).await };
        Ok(Call::new(work, |py, partitions| to_object(py, tuples(&partitions))))
    }

    /// Returns the names of all topics except internal ones.
    #[pyo3(signature = (timeout))]
    fn topics(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(Call::new(async move { core.topics(timeout).await }, to_object))
    }

    /// Sets the position of a partition. `leader_epoch` is the epoch of the record before `offset`.
    #[pyo3(signature = (partition, offset, leader_epoch))]
    fn seek(&self, py: Python<'_>, partition: Tp, offset: i64, leader_epoch: Option<i32>) -> PyResult<()> {
        let core = self.core.get(py)?;
        core.seek_after(&tp(&partition), offset, leader_epoch).map_err(|error| to_py(py, &error))
    }

    /// Limits reads of a partition to rows whose offset is less than `until`; None removes the limit.
    #[pyo3(signature = (partition, until))]
    fn read_until(&self, py: Python<'_>, partition: Tp, until: Option<i64>) -> PyResult<()> {
        self.core.get(py)?.read_until(&tp(&partition), until).map_err(|error| to_py(py, &error))
    }

    fn lift_ends(&self, py: Python<'_>) -> PyResult<()> {
        self.core.get(py)?.lift_ends();
        Ok(())
    }

    /// Returns the partitions that have not reached their ends, with their positions and ends, the partitions without
    /// an end, and whether any position is past its end.
    fn bounds(&self, py: Python<'_>) -> PyResult<(Vec<BoundedPartition>, Vec<Tp>, bool)> {
        let bounds = self.core.get(py)?.bounds();
        let open = bounds.open.into_iter().map(|(tp, position, end)| (tuple(&tp), position, end));
        Ok((open.collect(), tuples(&bounds.unbounded), !bounds.past.is_empty()))
    }

    /// Resets positions past the ends of a bounded read if they are not in the log.
    #[pyo3(signature = (timeout))]
    fn reset_past_ends(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(Call::without_result(async move { core.reset_past_ends(timeout).await }))
    }

    /// Returns the partitions that brokers report as unknown.
    #[pyo3(signature = (partitions, timeout))]
    fn unknown_partitions(&self, py: Python<'_>, partitions: Vec<Tp>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let work = async move { core.unknown_partitions(&tps(&partitions), timeout).await };
        Ok(Call::new(work, |py, partitions| to_object(py, tuples(&partitions))))
    }

    #[pyo3(signature = (partitions, timeout))]
    fn seek_to_beginning(&self, py: Python<'_>, partitions: Vec<Tp>, timeout: Option<f64>) -> PyResult<Call> {
        self.seek_to(py, &partitions, SeekTarget::Beginning, timeout)
    }

    #[pyo3(signature = (partitions, timeout))]
    fn seek_to_end(&self, py: Python<'_>, partitions: Vec<Tp>, timeout: Option<f64>) -> PyResult<Call> {
        self.seek_to(py, &partitions, SeekTarget::End, timeout)
    }

    #[pyo3(signature = (partitions, timeout))]
    fn seek_to_committed(&self, py: Python<'_>, partitions: Vec<Tp>, timeout: Option<f64>) -> PyResult<Call> {
        self.seek_to(py, &partitions, SeekTarget::Committed, timeout)
    }

    /// Seeks to a timestamp in milliseconds since 1970.
    #[pyo3(signature = (partitions, timestamp, timeout))]
    fn seek_to_timestamp(
        &self,
        py: Python<'_>,
        partitions: Vec<Tp>,
        timestamp: i64,
        timeout: Option<f64>,
    ) -> PyResult<Call> {
        self.seek_to(py, &partitions, SeekTarget::Timestamp(timestamp), timeout)
    }

    /// Returns true if the partition is assigned and not paused, and its next row has this offset.
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

    /// Closes the consumer. Closing continues in the background if a signal handler raises.
    #[pyo3(signature = (timeout))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let closing = async move {
            core.close(timeout).await;
            Ok(())
        };
        Ok(Call::without_result(closing).continue_if_interrupted())
    }

    /// Waits for a `close` that continues in the background.
    #[pyo3(signature = (timeout))]
    fn closed(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(Call::without_result(async move {
            core.closed(timeout).await;
            Ok(())
        }))
    }
}

/// Converts a value that needs no custom conversion.
fn to_object<T: for<'py> IntoPyObject<'py>>(py: Python<'_>, value: T) -> PyResult<Py<PyAny>> {
    value.into_py_any(py)
}
