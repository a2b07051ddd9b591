//! The share consumer of `samsarrow._core`.

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
use samsarrow_client::share::{Acknowledgement, Outcomes, ShareConsumer as Core, ShareOptions};

use crate::config;
use crate::conversions::{Tp, batches, tuple};
use crate::metrics::{Metrics, instance_id};

/// Partitions with the error of their acknowledgements, or None.
type PyOutcomes = Vec<(Tp, Option<Py<PyAny>>)>;
/// A completed commit in the background: its number, the acknowledged offsets, and the outcomes.
type CompletedCommit = (u64, Vec<(Tp, Vec<(i64, i64)>)>, PyOutcomes);

/// See `samsarrow.ShareConsumer`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct ShareConsumer {
    core: Owned<Arc<Core>>,
}

impl ShareConsumer {
    fn arc(&self, py: Python<'_>) -> PyResult<Arc<Core>> {
        Ok(Arc::clone(&*self.core.get(py)?))
    }
}

#[pymethods]
impl ShareConsumer {
    #[new]
    fn new(py: Python<'_>, options: Vec<(String, Bound<'_, PyAny>)>, auto_renew: bool) -> PyResult<Self> {
        let parse = |values| ShareOptions::parse(values, auto_renew);
        let (options, share) = config::parse_with(py, ClientKind::Consumer, options, parse)?;
        let core = Core::new(&options, share).map_err(|error| to_py(py, &error))?;
        Ok(Self { core: Owned::new("share consumer", Arc::new(core)) })
    }

    #[pyo3(signature = (timeout))]
    fn client_instance_id(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let limit = seconds(py, timeout, core.default_timeout())?;
        Ok(instance_id(async move { core.client_instance_id(limit).await }))
    }

    fn metrics(&self, py: Python<'_>) -> PyResult<Metrics> {
        Ok(Metrics::new(self.core.get(py)?.metrics()))
    }

    fn subscribe(&self, py: Python<'_>, topics: Vec<String>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let runtime = runtime(py)?;
        let _inside = runtime.enter();
        core.subscribe(topics.into_iter().collect()).map_err(|error| to_py(py, &error))
    }

    fn subscription(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.core.get(py)?.subscription().into_iter().collect())
    }

    fn unsubscribe(&self, py: Python<'_>) -> PyResult<()> {
        self.core.get(py)?.unsubscribe().map_err(|error| to_py(py, &error))
    }

    fn assignment(&self, py: Python<'_>) -> PyResult<Vec<Tp>> {
        Ok(self.core.get(py)?.assignment().iter().map(tuple).collect())
    }

    /// Returns `default.api.timeout.ms`, in seconds.
    fn default_timeout(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.core.get(py)?.default_timeout().as_secs_f64())
    }

    /// Starts a poll and returns its deadline. In the implicit mode, the rows of earlier polls are accepted.
    #[pyo3(signature = (timeout))]
    fn begin_poll(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Deadline> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, Duration::ZERO)?;
        core.begin_poll().map_err(|error| to_py(py, &error))?;
        Ok(Deadline::after(timeout))
    }

    /// Returns available rows, or True if commits in the background have completed, or None. If `holds`, no commit
    /// accepts the rows before `set_returned`.
    fn try_poll(&self, py: Python<'_>, holds: bool) -> PyResult<Option<Py<PyAny>>> {
        let core = self.core.get(py)?;
        if core.has_completed() {
            return true.into_py_any(py).map(Some);
        }
        let rows = if holds { core.try_hold() } else { core.try_poll() };
        let rows = rows.map_err(|error| to_py(py, &error))?;
        rows.map(|batch| Ok(arrow_ffi::to_pyarrow(py, &batch)?.unbind())).transpose()
    }

    /// Waits until `try_poll` may return something, for at most `timeout` seconds.
    fn wait_ready(&self, py: Python<'_>, timeout: f64) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, Some(timeout), Duration::ZERO)?;
        Ok(Call::at_most(timeout, async move { core.wait_ready(FOREVER).await }))
    }

    /// Returns a batch without rows, for a poll that timed out.
    fn empty_batch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let batch = self.core.get(py)?.empty_batch().map_err(|error| to_py(py, &error))?;
        arrow_ffi::to_pyarrow(py, &batch)
    }

    /// Acknowledges rows with one type, or with one type for each row. The types are those of the protocol; None leaves
    /// a row undecided. With `forced`, the mode may be implicit, and rows may be held.
    fn acknowledge(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        types: Vec<Option<i8>>,
        forced: bool,
    ) -> PyResult<()> {
        let batches = batches(py, data)?;
        let types: Vec<_> = types.into_iter().map(|code| code.and_then(Acknowledgement::from_code)).collect();
        let core = self.core.get(py)?;
        let done = if forced { core.decide(&batches, &types) } else { core.acknowledge(&batches, &types) };
        done.map_err(|error| to_py(py, &error))
    }

    /// Marks held rows as returned by a poll.
    fn set_returned(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let batches = batches(py, data)?;
        self.core.get(py)?.set_returned(&batches).map_err(|error| to_py(py, &error))
    }

    /// Returns for each held row whether it can still be returned.
    fn still_held(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        let batches = batches(py, data)?;
        self.core.get(py)?.still_held(&batches).map_err(|error| to_py(py, &error))
    }

    /// Sends all acknowledgements, and returns the outcome of each partition.
    #[pyo3(signature = (timeout))]
    fn commit(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let work = async move { core.commit(timeout).await };
        // The outcomes are taken with the result, so a cancelled call leaves them to the next commit.
        Ok(Call::new(work, |py, commit| py_outcomes(py, commit.outcomes()).into_py_any(py)))
    }

    /// Sends all acknowledgements in the background. Returns the number under which `take_completed` reports them.
    fn commit_async(&self, py: Python<'_>) -> PyResult<u64> {
        self.core.get(py)?.commit_async().map_err(|error| to_py(py, &error))
    }

    fn take_completed(&self, py: Python<'_>) -> PyResult<Vec<CompletedCommit>> {
        let completed = self.core.get(py)?.take_completed().into_iter();
        Ok(completed
            .map(|commit| {
                let ranges = commit.ranges.iter().map(|(tp, ranges)| (tuple(tp), ranges.clone())).collect();
                (commit.number, ranges, py_outcomes(py, commit.outcomes))
            })
            .collect())
    }

    /// Returns the seconds for which records are locked; None until a broker has reported them.
    fn lock_timeout(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.core.get(py)?.lock_timeout().map(|timeout| timeout.as_secs_f64()))
    }

    /// Returns the seconds until the first lock of these rows ends; None if none is locked.
    fn locked_for(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let batches = batches(py, data)?;
        let left = self.core.get(py)?.locked_for(&batches).map_err(|error| to_py(py, &error))?;
        Ok(left.map(|left| left.as_secs_f64()))
    }

    fn wakeup(&self, py: Python<'_>) -> PyResult<()> {
        self.core.get(py)?.wakeup();
        Ok(())
    }

    /// Closes the consumer. In the implicit mode, the rows of the last poll are accepted if `accepts`; other rows are
    /// released. Closing continues in the background if a signal handler raises.
    #[pyo3(signature = (timeout, accepts = false))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>, accepts: bool) -> PyResult<Call> {
        let core = self.arc(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let closing = async move {
            core.close(timeout, accepts).await;
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

fn py_outcomes(py: Python<'_>, outcomes: Outcomes) -> PyOutcomes {
    outcomes.into_iter().map(|(tp, outcome)| (tuple(&tp), outcome.err().map(|error| to_py_value(py, &error)))).collect()
}
