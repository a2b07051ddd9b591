//! Offsets of groups, and offsets that leaders know.

use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::error::to_py_value;
use samsarrow_bridge::runtime::seconds;
use samsarrow_client::admin::{CommitSettings, FetchSettings, Fetched, PartitionLag};
use samsarrow_client::config::IsolationLevel;
use samsarrow_client::offsets::{ListTarget, Listed};
use samsarrow_client::types::{OffsetAndMetadata, TopicPartition};

use super::{Admin, Core, said};
use crate::partitions::{Committed, Tp, tp, tuple};

fn plain(at: OffsetAndMetadata) -> Committed {
    (at.offset, at.metadata, at.leader_epoch)
}

fn isolation(committed: bool) -> IsolationLevel {
    if committed { IsolationLevel::ReadCommitted } else { IsolationLevel::ReadUncommitted }
}

/// `retention` is in seconds, `timestamp` in milliseconds since 1970.
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
    let retention = retention.map(|given| seconds(py, Some(given), std::time::Duration::ZERO)).transpose()?;
    let one = |(at, (offset, metadata, leader_epoch)): (Tp, Committed)| {
        (tp(&at), OffsetAndMetadata { offset, metadata, leader_epoch })
    };
    let offsets: Vec<_> = offsets.into_iter().map(one).collect();
    let settings = CommitSettings { version, retention, timestamp };
    let work = |core: Core, time| async move { core.commit_offsets(&group, &offsets, &settings, time).await };
    admin.call(py, timeout, work, |py, done| said(py, done, |at: TopicPartition| tuple(&at), |()| ()))
}

/// No partitions stand for all that the group has.
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
    let one = |(group, tps): (String, Option<Vec<Tp>>)| (group, tps.map(|tps| tps.iter().map(tp).collect()));
    let groups: Vec<_> = groups.into_iter().map(one).collect();
    let settings = FetchSettings { version, require_stable };
    let work = |core: Core, time| async move { core.fetch_offsets(&groups, &settings, time).await };
    let found = |found: Fetched| found.into_iter().map(|(tp, at)| (tuple(&tp), at.map(plain))).collect::<Vec<_>>();
    admin.call(py, timeout, work, move |py, done| said(py, done, |group| group, found))
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
    admin.call(py, timeout, work, |py, done| said(py, done, |at: TopicPartition| tuple(&at), |()| ()))
}

/// −1 is the end, −2 the start, −3 the largest timestamp, −4 the first local, −5 the last tiered, −6 the first that is not
/// tiered yet; others are times.
fn target(wanted: i64) -> ListTarget {
    match wanted {
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
#[pyo3(signature = (admin, wanted, committed, timeout))]
pub(crate) fn admin_list_offsets(
    py: Python<'_>,
    admin: &Admin,
    wanted: Vec<(Tp, i64)>,
    committed: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let wanted: Vec<_> = wanted.iter().map(|(at, wanted)| (tp(at), target(*wanted))).collect();
    let level = isolation(committed);
    let work = |core: Core, time| async move { core.list_offsets(&wanted, level, time).await };
    admin.call(py, timeout, work, |py, done: Vec<Listed>| {
        said(
            py,
            done,
            |at: TopicPartition| tuple(&at),
            |found| found.map(|at| (at.offset, at.timestamp, at.leader_epoch)),
        )
    })
}

/// For each partition of a group what is committed, the end, the exception if that is not known.
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
        let one = |lag: PartitionLag| {
            let (end, error) = match lag.end {
                Ok(end) => (Some(end), None),
                Err(error) => (None, Some(to_py_value(py, &error))),
            };
            (tuple(&lag.partition), plain(lag.committed), end, error)
        };
        said(py, done, |group| group, |its| its.into_iter().map(one).collect::<Vec<_>>())
    })
}
