//! Committed offsets of groups, and offsets of partitions.

use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::error::to_py_value;
use samsarrow_bridge::runtime::seconds;
use samsarrow_client::admin::{CommitSettings, FetchSettings, Fetched, PartitionLag};
use samsarrow_client::config::IsolationLevel;
use samsarrow_client::offsets::{ListTarget, Listed};
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};

use super::{Admin, Core, keyed_results};
use crate::conversions::{Committed, Tp, tp, tuple};

fn offset_tuple(offset: OffsetAndMetadata) -> Committed {
    (offset.offset, offset.metadata, offset.leader_epoch)
}

fn isolation(committed: bool) -> IsolationLevel {
    if committed { IsolationLevel::ReadCommitted } else { IsolationLevel::ReadUncommitted }
}

/// Commits offsets. `retention` is in seconds, `timestamp` in milliseconds since 1970.
#[pyfunction]
#[pyo3(signature = (admin, group, offsets, version, retention, timestamp, timeout))]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python method")]
pub(crate) fn admin_commit_offsets(
    py: Python<'_>,
    admin: &Admin,
    group: String,
    offsets: Vec<(Tp, Committed)>,
    version: Option<i16>,
    retention: Option<f64>,
    timestamp: Option<i64>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let retention = retention.map(|value| seconds(py, Some(value), std::time::Duration::ZERO)).transpose()?;
    let convert = |(pair, (offset, metadata, leader_epoch)): (Tp, Committed)| {
        (tp(&pair), OffsetAndMetadata { offset, metadata, leader_epoch })
    };
    let offsets: Vec<_> = offsets.into_iter().map(convert).collect();
    let settings = CommitSettings { version, retention, timestamp };
    let work = |core: Core, time| async move { core.commit_offsets(&group, &offsets, &settings, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, |tp: TopicPartition| tuple(&tp), |()| ()))
}

/// Returns the committed offsets of groups. If the partitions of a group are None, returns all offsets that the group
/// has committed.
#[pyfunction]
#[pyo3(signature = (admin, groups, version, require_stable, timeout))]
pub(crate) fn admin_fetch_offsets(
    py: Python<'_>,
    admin: &Admin,
    groups: Vec<(String, Option<Vec<Tp>>)>,
    version: Option<i16>,
    require_stable: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let convert = |(group, tps): (String, Option<Vec<Tp>>)| (group, tps.map(|tps| tps.iter().map(tp).collect()));
    let groups: Vec<_> = groups.into_iter().map(convert).collect();
    let settings = FetchSettings { version, require_stable };
    let work = |core: Core, time| async move { core.fetch_offsets(&groups, &settings, time).await };
    let offsets = |fetched: Fetched| {
        fetched.into_iter().map(|(tp, offset)| (tuple(&tp), offset.map(offset_tuple))).collect::<Vec<_>>()
    };
    admin.call(py, timeout, work, move |py, done| keyed_results(py, done, |group| group, offsets))
}

#[pyfunction]
#[pyo3(signature = (admin, group, partitions, timeout))]
pub(crate) fn admin_delete_offsets(
    py: Python<'_>,
    admin: &Admin,
    group: String,
    partitions: Vec<Tp>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let partitions: Vec<_> = partitions.iter().map(tp).collect();
    let work = |core: Core, time| async move { core.delete_offsets(&group, &partitions, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, |tp: TopicPartition| tuple(&tp), |()| ()))
}

/// Converts a ListOffsets timestamp. Negative timestamps are special: −1 latest, −2 earliest, −3 maximum timestamp, −4
/// earliest local, −5 latest tiered, −6 earliest pending upload. Other timestamps are times in milliseconds since 1970.
fn target(timestamp: i64) -> ListTarget {
    match timestamp {
        -1 => ListTarget::Latest,
        -2 => ListTarget::Earliest,
        -3 => ListTarget::MaxTimestamp,
        -4 => ListTarget::EarliestLocal,
        -5 => ListTarget::LatestTiered,
        -6 => ListTarget::EarliestPendingUpload,
        time => ListTarget::Timestamp(time),
    }
}

#[pyfunction]
#[pyo3(signature = (admin, targets, committed, timeout))]
pub(crate) fn admin_list_offsets(
    py: Python<'_>,
    admin: &Admin,
    targets: Vec<(Tp, i64)>,
    committed: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let targets: Vec<_> = targets.iter().map(|(pair, timestamp)| (tp(pair), target(*timestamp))).collect();
    let level = isolation(committed);
    let work = |core: Core, time| async move { core.list_offsets(&targets, level, time).await };
    admin.call(py, timeout, work, |py, done: Vec<Listed>| {
        keyed_results(
            py,
            done,
            |tp: TopicPartition| tuple(&tp),
            |offset| offset.map(|offset| (offset.offset, offset.timestamp, offset.leader_epoch)),
        )
    })
}

/// Returns for each partition of a group the committed offset, the end offset, and an exception if the end offset is
/// unknown.
#[pyfunction]
#[pyo3(signature = (admin, groups, committed, timeout))]
pub(crate) fn admin_group_lag(
    py: Python<'_>,
    admin: &Admin,
    groups: Vec<String>,
    committed: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let level = isolation(committed);
    let work = |core: Core, time| async move { core.group_lag(&groups, level, time).await };
    admin.call(py, timeout, work, |py, done| {
        let convert = |lag: PartitionLag| {
            let (end, error) = match lag.end {
                Ok(end) => (Some(end), None),
                Err(error) => (None, Some(to_py_value(py, &error))),
            };
            (tuple(&lag.partition), offset_tuple(lag.committed), end, error)
        };
        keyed_results(py, done, |group| group, |partitions| partitions.into_iter().map(convert).collect::<Vec<_>>())
    })
}
