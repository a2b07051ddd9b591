//! The consumer as Python calls it.

use std::time::Duration;

use pyo3::prelude::*;
use samsarrow_client::config::ClientKind;
use samsarrow_client::consumer::{Consumer as Core, SeekTarget};
use samsarrow_client::error::Error;
use samsarrow_client::fetch::positions_of;
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};

use crate::arrow_ffi;
use crate::config;
use crate::error::to_py;
use crate::runtime::{Owned, run, runtime, seconds};

/// Topic and partition, as a tuple.
pub(crate) type Tp = (String, i32);
/// Offset, metadata and leader epoch.
pub(crate) type Committed = (i64, String, Option<i32>);

pub(crate) fn tp(given: &Tp) -> TopicPartition {
    TopicPartition::new(given.0.as_str(), given.1)
}

pub(crate) fn tuple(tp: &TopicPartition) -> Tp {
    (tp.topic.to_string(), tp.partition)
}

fn tps(given: &[Tp]) -> Vec<TopicPartition> {
    given.iter().map(tp).collect()
}

pub(crate) fn tuples(tps: &[TopicPartition]) -> Vec<Tp> {
    tps.iter().map(tuple).collect()
}

/// See `samsarrow.Consumer`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Consumer {
    core: Owned<Core>,
}

#[pymethods]
impl Consumer {
    #[new]
    fn new(py: Python<'_>, options: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let options = config::parse(py, ClientKind::Consumer, options)?;
        let core = Core::new(&options).map_err(|error| to_py(py, &error))?;
        Ok(Self { core: Owned::new("consumer", core) })
    }

    fn assign(&self, py: Python<'_>, partitions: Vec<Tp>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let runtime = runtime()?;
        let _inside = runtime.enter();
        core.assign(&tps(&partitions)).map_err(|error| to_py(py, &error))
    }

    fn assignment(&self, py: Python<'_>) -> PyResult<Vec<Tp>> {
        Ok(tuples(&self.core.get(py)?.assignment()))
    }

    fn poll<'py>(&self, py: Python<'py>, timeout: f64) -> PyResult<Bound<'py, PyAny>> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, Some(timeout), Duration::ZERO)?;
        let batch = run(py, core.poll(timeout))?;
        arrow_ffi::to_pyarrow(py, &batch)
    }

    /// An empty batch: its schema is the consumer's.
    fn empty<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = self.core.get(py)?.schema();
        arrow_ffi::to_pyarrow(py, &arrow_array::RecordBatch::new_empty(schema))
    }

    #[pyo3(signature = (offsets, timeout))]
    fn commit(&self, py: Python<'_>, offsets: Option<Vec<(Tp, Committed)>>, timeout: Option<f64>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let offsets = offsets.map(|list| {
            let one = |(at, (offset, metadata, leader_epoch)): (Tp, Committed)| {
                (tp(&at), OffsetAndMetadata { offset, metadata, leader_epoch })
            };
            list.into_iter().map(one).collect()
        });
        run(py, core.commit(offsets, timeout))
    }

    /// Commits past the last row of each partition in a batch.
    #[pyo3(signature = (batch, timeout))]
    fn commit_batch(&self, py: Python<'_>, batch: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let mut offsets = Vec::new();
        for part in arrow_ffi::from_python(batch)? {
            let found = part.map_err(|error| Error::configuration(format!("Arrow data cannot be read: {error}")));
            let found = found.and_then(|part| positions_of(&part)).map_err(|error| to_py(py, &error))?;
            offsets.extend(found);
        }
        let offsets = offsets.into_iter().map(|(tp, offset)| (tp, OffsetAndMetadata { offset, ..Default::default() }));
        run(py, core.commit(Some(offsets.collect()), timeout))
    }

    #[pyo3(signature = (partitions, timeout))]
    fn committed(
        &self,
        py: Python<'_>,
        partitions: Vec<Tp>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<(Tp, Option<Committed>)>> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let found = run(py, core.committed(&tps(&partitions), timeout))?;
        let one = |found: OffsetAndMetadata| (found.offset, found.metadata, found.leader_epoch);
        Ok(found.into_iter().map(|(tp, found)| (tuple(&tp), found.map(one))).collect())
    }

    #[pyo3(signature = (partition, timeout))]
    fn position(&self, py: Python<'_>, partition: Tp, timeout: Option<f64>) -> PyResult<i64> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        run(py, core.position(&tp(&partition), timeout))
    }

    #[pyo3(signature = (partitions, timeout))]
    fn beginning_offsets(&self, py: Python<'_>, partitions: Vec<Tp>, timeout: Option<f64>) -> PyResult<Vec<(Tp, i64)>> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(offsets(run(py, core.beginning_offsets(&tps(&partitions), timeout))?))
    }

    #[pyo3(signature = (partitions, timeout))]
    fn end_offsets(&self, py: Python<'_>, partitions: Vec<Tp>, timeout: Option<f64>) -> PyResult<Vec<(Tp, i64)>> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(offsets(run(py, core.end_offsets(&tps(&partitions), timeout))?))
    }

    /// Offset, timestamp and leader epoch of the first record at or after each time.
    #[pyo3(signature = (times, timeout))]
    #[allow(clippy::type_complexity, reason = "what Python gets: partition and (offset, timestamp, epoch)")]
    fn offsets_for_times(
        &self,
        py: Python<'_>,
        times: Vec<(Tp, i64)>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<(Tp, Option<(i64, i64, Option<i32>)>)>> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let times: Vec<_> = times.iter().map(|(at, time)| (tp(at), *time)).collect();
        let found = run(py, core.offsets_for_times(&times, timeout))?;
        let one = |(tp, found): (TopicPartition, Option<samsarrow_client::types::OffsetAndTimestamp>)| {
            (tuple(&tp), found.map(|found| (found.offset, found.timestamp, found.leader_epoch)))
        };
        Ok(found.into_iter().map(one).collect())
    }

    #[pyo3(signature = (timeout))]
    fn lag(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<(Tp, i64)>> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(offsets(run(py, core.lag(timeout))?))
    }

    #[pyo3(signature = (topic, timeout))]
    fn partitions_for(&self, py: Python<'_>, topic: &str, timeout: Option<f64>) -> PyResult<Vec<Tp>> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        Ok(tuples(&run(py, core.partitions_for(topic, timeout))?))
    }

    fn seek(&self, py: Python<'_>, partition: Tp, offset: i64) -> PyResult<()> {
        self.core.get(py)?.seek(&tp(&partition), offset).map_err(|error| to_py(py, &error))
    }

    /// `target` is `beginning`, `end`, `committed` or a timestamp in milliseconds.
    #[pyo3(signature = (partitions, target, timeout))]
    fn seek_to(&self, py: Python<'_>, partitions: Vec<Tp>, target: Target, timeout: Option<f64>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let target = match target {
            Target::Timestamp(time) => SeekTarget::Timestamp(time),
            Target::Named(name) => match name.as_str() {
                "beginning" => SeekTarget::Beginning,
                "end" => SeekTarget::End,
                _ => SeekTarget::Committed,
            },
        };
        run(py, core.seek_to(&tps(&partitions), target, timeout))
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

    #[pyo3(signature = (timeout))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        run(py, async {
            core.close(timeout).await;
            Ok(())
        })
    }
}

/// Where to seek, as Python gives it.
#[derive(FromPyObject)]
enum Target {
    Timestamp(i64),
    Named(String),
}

fn offsets(found: Vec<(TopicPartition, i64)>) -> Vec<(Tp, i64)> {
    found.into_iter().map(|(tp, offset)| (tuple(&tp), offset)).collect()
}
