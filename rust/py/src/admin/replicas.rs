//! Replicas.

use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::error::to_py_value;
use samsarrow_client::admin::{LogDir, Replica, ReplicaInfo};
use samsarrow_client::types::TopicPartition;

use super::{Admin, Core, listed, said};
use crate::partitions::{Tp, tp, tuple};

fn some(partitions: Option<Vec<Tp>>) -> Option<Vec<TopicPartition>> {
    partitions.map(|some| some.iter().map(tp).collect())
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
    let partitions = some(partitions);
    let work = move |core: Core, time| async move { core.elect_leaders(election, partitions.as_deref(), time).await };
    admin.call(py, timeout, work, |py, done| said(py, done, |at: TopicPartition| tuple(&at), |changed| changed))
}

#[pyfunction]
#[pyo3(signature = (admin, wanted, allow_replication_factor_change, timeout))]
pub(crate) fn admin_alter_reassignments(
    py: Python<'_>,
    admin: &Admin,
    wanted: Vec<(Tp, Option<Vec<i32>>)>,
    allow_replication_factor_change: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let wanted = wanted.into_iter().map(|(at, replicas)| (tp(&at), replicas)).collect();
    let work = move |core: Core, time| async move {
        core.alter_reassignments(&wanted, allow_replication_factor_change, time).await
    };
    admin.call(py, timeout, work, |py, done| said(py, done, |at: TopicPartition| tuple(&at), |()| ()))
}

#[pyfunction]
#[pyo3(signature = (admin, partitions, timeout))]
pub(crate) fn admin_list_reassignments(
    py: Python<'_>,
    admin: &Admin,
    partitions: Option<Vec<Tp>>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let partitions = some(partitions);
    let work = |core: Core, time| async move { core.list_reassignments(partitions.as_deref(), time).await };
    admin.call(py, timeout, work, |py, found| {
        listed(py, found, |(at, moved)| (tuple(&at), (moved.replicas, moved.adding, moved.removing)))
    })
}

/// Partition, size, lag, future.
type OnDisk = (Tp, i64, i64, bool);

/// For each disk: path, replicas, the exception if they are not known, bytes in all, bytes free, cordoned.
#[pyfunction]
#[pyo3(signature = (admin, brokers, timeout))]
pub(crate) fn admin_log_dirs(
    py: Python<'_>,
    admin: &Admin,
    brokers: Option<Vec<i32>>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.log_dirs(brokers.as_deref(), time).await };
    let replica = |r: ReplicaInfo| -> OnDisk { (tuple(&r.partition), r.size, r.offset_lag, r.future) };
    admin.call(py, timeout, work, move |py, done| {
        let one = |dir: LogDir| {
            let (replicas, error) = match dir.replicas {
                Ok(replicas) => (replicas.into_iter().map(replica).collect(), None),
                Err(error) => (Vec::new(), Some(to_py_value(py, &error))),
            };
            (dir.path, replicas, error, dir.total_bytes, dir.usable_bytes, dir.cordoned)
        };
        said(py, done, |broker| broker, |dirs| dirs.into_iter().map(one).collect::<Vec<_>>())
    })
}

#[pyfunction]
#[pyo3(signature = (admin, wanted, timeout))]
pub(crate) fn admin_move_replicas(
    py: Python<'_>,
    admin: &Admin,
    wanted: Vec<((Tp, i32), String)>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let wanted = wanted.into_iter().map(|((at, broker), dir)| ((tp(&at), broker), dir)).collect();
    let work = |core: Core, time| async move { core.move_replicas(&wanted, time).await };
    admin.call(py, timeout, work, |py, done| said(py, done, |(at, broker): Replica| (tuple(&at), broker), |()| ()))
}
