//! Partitions and their offsets, as Python gives and gets them.

use pyo3::prelude::*;
use samsarrow_bridge::arrow_ffi;
use samsarrow_bridge::error::{to_py, to_py_value};
use samsarrow_client::error::Error;
use samsarrow_client::fetch::positions_of;
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

/// The offsets after the last row of each partition in a batch.
#[pyfunction]
pub(crate) fn offsets_of(py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<Vec<(Tp, i64)>> {
    let mut offsets = Vec::new();
    for part in arrow_ffi::from_python(batch)? {
        let found = part.map_err(|error| Error::configuration(format!("Arrow data cannot be read: {error}")));
        let found = found.and_then(|part| positions_of(&part)).map_err(|error| to_py(py, &error))?;
        offsets.extend(found.into_iter().map(|(tp, offset)| (tuple(&tp), offset)));
    }
    Ok(offsets)
}
