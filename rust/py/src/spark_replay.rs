//! Repeated micro-batches of the Spark sink that is written in Python.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use samsarrow_spark::commit_markers::RowSummary;
use samsarrow_spark::exactly_once::MicroBatch;
use samsarrow_spark::replay::Attempt;

use crate::spark::to_exception;

/// One attempt to write a task of a micro-batch exactly once. The methods that compare markers raise an error if the
/// attempt contradicts what is written.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct SparkAttempt {
    core: Attempt,
}

#[pymethods]
impl SparkAttempt {
    /// `query` and `number` are Spark's local properties, or None if Spark does not set them. `prefix` and
    /// `allow_replay_mismatch` are options of the write.
    #[new]
    #[pyo3(signature = (query, number, task, prefix, allow_replay_mismatch))]
    fn new(
        py: Python<'_>,
        query: Option<&str>,
        number: Option<&str>,
        task: u64,
        prefix: Option<String>,
        allow_replay_mismatch: Option<u64>,
    ) -> PyResult<Self> {
        let batch = MicroBatch::parse(query, number).map_err(|error| to_exception(py, &error))?;
        Ok(Self { core: Attempt::new(batch, task, prefix, allow_replay_mismatch) })
    }

    /// Returns the group of the driver's marker.
    #[getter]
    fn group(&self) -> String {
        self.core.group()
    }

    /// Returns the transactional id of the task, which is also the group of its marker.
    #[getter]
    fn transactional_id(&self) -> String {
        self.core.transactional_id()
    }

    /// Returns the options of the task's producer that `kafka` does not set.
    fn producer_options(&self, kafka: BTreeMap<String, String>) -> BTreeMap<&'static str, String> {
        self.core.producer_options(&kafka).into_iter().collect()
    }

    /// Returns true if the offset of a marker, of the task or of the driver, is that of this micro-batch.
    fn is_written(&self, py: Python<'_>, offset: i64, by_task: bool) -> PyResult<bool> {
        self.core.is_written(offset, by_task).map_err(|error| to_exception(py, &error))
    }

    /// Compares skipped rows with the metadata of the task's marker.
    fn check_skipped_rows(&self, py: Python<'_>, stored: String, rows: u64, size: u64, digest: u64) -> PyResult<()> {
        let summary = RowSummary { rows, bytes: size, digest };
        self.core.check_skipped_rows(stored, &summary).map_err(|error| to_exception(py, &error))
    }

    /// Returns the offset and the metadata of the task's marker.
    fn task_marker(&self, rows: u64, size: u64, digest: u64) -> (i64, String) {
        self.core.task_marker(&RowSummary { rows, bytes: size, digest })
    }

    /// Returns the offset and the metadata of the driver's marker.
    fn driver_marker(&self, tasks: u64) -> (i64, String) {
        self.core.driver_marker(tasks)
    }

    /// Compares the number of tasks with the driver's marker. Returns the groups whose markers must be checked, too.
    fn compare_tasks(&self, py: Python<'_>, offset: i64, stored: &str, tasks: u64) -> PyResult<Vec<String>> {
        self.core.compare_tasks(offset, stored, tasks).map_err(|error| to_exception(py, &error))
    }

    /// Reports that the number of tasks differs from the one in the driver's marker.
    fn report_tasks(&self, py: Python<'_>, stored: &str, tasks: u64) -> PyResult<()> {
        self.core.report_tasks(stored, tasks).map_err(|error| to_exception(py, &error))
    }
}
