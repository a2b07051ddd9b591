//! Partitions and their offsets, as Python gives and gets them.

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use samsarrow_bridge::arrow_ffi;
use samsarrow_bridge::error::{to_py, to_py_value};
use samsarrow_client::fetcher::{RowsEnd, ends_of_rows, offsets_of_rows};
use samsarrow_client::group::Offsets;
use samsarrow_client::offsets::Outcomes;
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};

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

pub(crate) fn tps(given: &[Tp]) -> Vec<TopicPartition> {
    given.iter().map(tp).collect()
}

pub(crate) fn tuples(tps: &[TopicPartition]) -> Vec<Tp> {
    tps.iter().map(tuple).collect()
}

/// Partitions that failed, with their exceptions.
pub(crate) type Failures = Vec<(Tp, Py<PyAny>)>;

pub(crate) fn given(offsets: Vec<(Tp, Committed)>) -> Offsets {
    let one = |(at, (offset, metadata, leader_epoch)): (Tp, Committed)| {
        (tp(&at), OffsetAndMetadata { offset, metadata, leader_epoch })
    };
    offsets.into_iter().map(one).collect()
}

pub(crate) fn failures(py: Python<'_>, outcomes: Outcomes) -> Failures {
    let failed = outcomes.into_iter().filter_map(|(tp, outcome)| Some((tp, outcome.err()?)));
    failed.map(|(tp, error)| (tuple(&tp), to_py_value(py, &error))).collect()
}

pub(crate) fn offsets(found: Vec<(TopicPartition, i64)>) -> Vec<(Tp, i64)> {
    found.into_iter().map(|(tp, offset)| (tuple(&tp), offset)).collect()
}

/// Returns the offsets after the last rows of each partition in Arrow data.
#[pyfunction]
pub(crate) fn offsets_of(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Vec<(Tp, Committed)>> {
    let offsets = offsets_of_rows(&batches(py, data)?).map_err(|error| to_py(py, &error))?;
    Ok(committed(offsets))
}

/// The end of rows of one partition: the offset to commit, and the topic id.
pub(crate) type End = (Tp, Committed, [u8; 16]);

/// As [`offsets_of`], with the ids of the topics that the rows were read from.
#[pyfunction]
pub(crate) fn ends_of(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Vec<End>> {
    let ends = ends_of_rows(&batches(py, data)?).map_err(|error| to_py(py, &error))?;
    let one = |(tp, end): (TopicPartition, RowsEnd)| {
        (tuple(&tp), (end.at.offset, end.at.metadata, end.at.leader_epoch), end.topic_id.0)
    };
    Ok(ends.into_iter().map(one).collect())
}

/// Returns the batches of Arrow data.
pub(crate) fn batches(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Vec<RecordBatch>> {
    let mut input = arrow_ffi::from_python(data)?;
    let mut all = Vec::new();
    while let Some(batch) = input.next(py)? {
        all.push(batch);
    }
    Ok(all)
}

pub(crate) fn committed(offsets: Offsets) -> Vec<(Tp, Committed)> {
    offsets.into_iter().map(|(tp, at)| (tuple(&tp), (at.offset, at.metadata, at.leader_epoch))).collect()
}
