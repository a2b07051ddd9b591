//! Leader elections, replica reassignments and log directories.

use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::error::to_py_value;
use samsarrow_client::admin::{LogDir, Replica, ReplicaInfo};
use samsarrow_client::types::TopicPartition;

use super::{Admin, Core, keyed_results, list_of};
use crate::conversions::{Tp, tp, tuple};

fn topic_partitions(partitions: Option<Vec<Tp>>) -> Option<Vec<TopicPartition>> {
    partitions.map(|pairs| pairs.iter().map(tp).collect())
}

#[pyfunction]
#[pyo3(signature = (admin, election, partitions, timeout))]
pub(crate) fn admin_elect_leaders(
    py: Python<'_>,
    admin: &Admin,
    election: i8,
    partitions: Option<Vec<Tp>>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let partitions = topic_partitions(partitions);
    let work = move |core: Core, time| async move { core.elect_leaders(election, partitions.as_deref(), time).await };
    admin
        .call(py, timeout, work, |py, done| keyed_results(py, done, |tp: TopicPartition| tuple(&tp), |changed| changed))
}

#[pyfunction]
#[pyo3(signature = (admin, reassignments, allow_replication_factor_change, timeout))]
pub(crate) fn admin_alter_reassignments(
    py: Python<'_>,
    admin: &Admin,
    reassignments: Vec<(Tp, Option<Vec<i32>>)>,
    allow_replication_factor_change: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let reassignments = reassignments.into_iter().map(|(pair, replicas)| (tp(&pair), replicas)).collect();
    let work = move |core: Core, time| async move {
        core.alter_reassignments(&reassignments, allow_replication_factor_change, time).await
    };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, |tp: TopicPartition| tuple(&tp), |()| ()))
}

#[pyfunction]
#[pyo3(signature = (admin, partitions, timeout))]
pub(crate) fn admin_list_reassignments(
    py: Python<'_>,
    admin: &Admin,
    partitions: Option<Vec<Tp>>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let partitions = topic_partitions(partitions);
    let work = |core: Core, time| async move { core.list_reassignments(partitions.as_deref(), time).await };
    admin.call(py, timeout, work, |py, reassignments| {
        list_of(py, reassignments, |(tp, moved)| (tuple(&tp), (moved.replicas, moved.adding, moved.removing)))
    })
}

/// Partition, size in bytes, offset lag, and true if the replica is a future replica.
type ReplicaTuple = (Tp, i64, i64, bool);

/// Returns for each log directory the path, the replicas, an exception if the replicas are unknown, the total and the
/// usable bytes, and true if the directory is cordoned.
#[pyfunction]
#[pyo3(signature = (admin, brokers, timeout))]
pub(crate) fn admin_log_dirs(
    py: Python<'_>,
    admin: &Admin,
    brokers: Option<Vec<i32>>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.log_dirs(brokers.as_deref(), time).await };
    let replica = |r: ReplicaInfo| -> ReplicaTuple { (tuple(&r.partition), r.size, r.offset_lag, r.future) };
    admin.call(py, timeout, work, move |py, done| {
        let convert = |dir: LogDir| {
            let (replicas, error) = match dir.replicas {
                Ok(replicas) => (replicas.into_iter().map(replica).collect(), None),
                Err(error) => (Vec::new(), Some(to_py_value(py, &error))),
            };
            (dir.path, replicas, error, dir.total_bytes, dir.usable_bytes, dir.cordoned)
        };
        keyed_results(py, done, |broker| broker, |dirs| dirs.into_iter().map(convert).collect::<Vec<_>>())
    })
}

#[pyfunction]
#[pyo3(signature = (admin, moves, timeout))]
pub(crate) fn admin_move_replicas(
    py: Python<'_>,
    admin: &Admin,
    moves: Vec<((Tp, i32), String)>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let moves = moves.into_iter().map(|((pair, broker), dir)| ((tp(&pair), broker), dir)).collect();
    let work = |core: Core, time| async move { core.move_replicas(&moves, time).await };
    admin.call(py, timeout, work, |py, done| {
        keyed_results(py, done, |(tp, broker): Replica| (tuple(&tp), broker), |()| ())
    })
}
