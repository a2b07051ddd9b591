//! Conversions of partitions and offsets.

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use samsarrow_bridge::arrow_ffi;
use samsarrow_bridge::error::{to_py, to_py_value};
use samsarrow_client::fetcher::{RowsEnd, ends_of_rows, offsets_of_rows};
use samsarrow_client::group::Offsets;
use samsarrow_client::offsets::Outcomes;
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};

/// Topic and partition.
pub(crate) type Tp = (String, i32);
/// Offset to commit, with its metadata and leader epoch.
pub(crate) type Committed = (i64, String, Option<i32>);

pub(crate) fn tp(pair: &Tp) -> TopicPartition {
    TopicPartition::new(pair.0.as_str(), pair.1)
}

pub(crate) fn tuple(tp: &TopicPartition) -> Tp {
    (tp.topic.to_string(), tp.partition)
}

pub(crate) fn tps(pairs: &[Tp]) -> Vec<TopicPartition> {
    pairs.iter().map(tp).collect()
}

pub(crate) fn tuples(tps: &[TopicPartition]) -> Vec<Tp> {
    tps.iter().map(tuple).collect()
}

/// Failed partitions with their exceptions.
pub(crate) type Failures = Vec<(Tp, Py<PyAny>)>;

pub(crate) fn to_offsets(offsets: Vec<(Tp, Committed)>) -> Offsets {
    let convert = |(pair, (offset, metadata, leader_epoch)): (Tp, Committed)| {
        (tp(&pair), OffsetAndMetadata { offset, metadata, leader_epoch })
    };
    offsets.into_iter().map(convert).collect()
}

pub(crate) fn failures(py: Python<'_>, outcomes: Outcomes) -> Failures {
    let failed = outcomes.into_iter().filter_map(|(tp, outcome)| Some((tp, outcome.err()?)));
    failed.map(|(tp, error)| (tuple(&tp), to_py_value(py, &error))).collect()
}

pub(crate) fn offset_tuples(offsets: Vec<(TopicPartition, i64)>) -> Vec<(Tp, i64)> {
    offsets.into_iter().map(|(tp, offset)| (tuple(&tp), offset)).collect()
}

/// Returns for each partition the offset after its last row in Arrow data.
#[pyfunction]
pub(crate) fn offsets_of(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Vec<(Tp, Committed)>> {
    let offsets = offsets_of_rows(&batches(py, data)?).map_err(|error| to_py(py, &error))?;
    Ok(committed_tuples(offsets))
}

/// End of the rows of one partition: the partition, the offset to commit, and the topic id.
pub(crate) type PyRowsEnd = (Tp, Committed, [u8; 16]);

/// Like [`offsets_of`], but includes the ids of the topics that the rows were read from.
#[pyfunction]
pub(crate) fn ends_of(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Vec<PyRowsEnd>> {
    let ends = ends_of_rows(&batches(py, data)?).map_err(|error| to_py(py, &error))?;
    let convert = |(tp, end): (TopicPartition, RowsEnd)| {
        (tuple(&tp), (end.at.offset, end.at.metadata, end.at.leader_epoch), end.topic_id.0)
    };
    Ok(ends.into_iter().map(convert).collect())
}

/// Imports all batches of Arrow data.
pub(crate) fn batches(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Vec<RecordBatch>> {
    let mut input = arrow_ffi::from_python(data)?;
    let mut batches = Vec::new();
    while let Some(batch) = input.next(py)? {
        batches.push(batch);
    }
    Ok(batches)
}

pub(crate) fn committed_tuples(offsets: Offsets) -> Vec<(Tp, Committed)> {
    offsets.into_iter().map(|(tp, end)| (tuple(&tp), (end.offset, end.metadata, end.leader_epoch))).collect()
}
