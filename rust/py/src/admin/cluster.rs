//! Brokers, features and the metadata quorum.

use std::collections::BTreeMap;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_client::admin::{BrokerDescription, QuorumReplica};
use samsarrow_wire::messages::Uuid;

use super::{Admin, Core, codes, keyed_results};

/// Node id and directory id of a voter.
type Voter = (i32, Vec<u8>);

fn voter_key((id, directory): Voter) -> (i32, Uuid) {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(directory).for_each(|(to, from)| *to = from);
    (id, Uuid(bytes))
}

#[pyfunction]
#[pyo3(signature = (admin, fenced, operations, timeout))]
pub(crate) fn admin_describe_cluster(
    py: Python<'_>,
    admin: &Admin,
    fenced: bool,
    operations: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = move |core: Core, time| async move { core.describe_cluster(fenced, operations, time).await };
    admin.call(py, timeout, work, |py, cluster| {
        let broker = |b: BrokerDescription| (b.id, b.host, b.port, b.rack, b.fenced);
        let brokers: Vec<_> = cluster.brokers.into_iter().map(broker).collect();
        (cluster.cluster_id, cluster.controller, brokers, codes(cluster.operations)).into_py_any(py)
    })
}

#[pyfunction]
#[pyo3(signature = (admin, timeout))]
pub(crate) fn admin_describe_features(py: Python<'_>, admin: &Admin, timeout: Option<f64>) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.describe_features(time).await };
    admin.call(py, timeout, work, |py, features| {
        (features.finalized, features.epoch, features.supported).into_py_any(py)
    })
}

#[pyfunction]
#[pyo3(signature = (admin, updates, validate_only, timeout))]
pub(crate) fn admin_update_features(
    py: Python<'_>,
    admin: &Admin,
    updates: BTreeMap<String, (i16, i8)>,
    validate_only: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = move |core: Core, time| async move { core.update_features(&updates, validate_only, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, |name| name, |()| ()))
}

#[pyfunction]
#[pyo3(signature = (admin, timeout))]
pub(crate) fn admin_describe_quorum(py: Python<'_>, admin: &Admin, timeout: Option<f64>) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.describe_quorum(time).await };
    admin.call(py, timeout, work, |py, q| {
        let replica = |r: QuorumReplica| (r.id, r.directory.0, r.log_end_offset, r.last_fetch, r.last_caught_up);
        let voters: Vec<_> = q.voters.into_iter().map(replica).collect();
        let observers: Vec<_> = q.observers.into_iter().map(replica).collect();
        (q.leader, q.leader_epoch, q.high_watermark, voters, observers, q.nodes).into_py_any(py)
    })
}

#[pyfunction]
#[pyo3(signature = (admin, cluster_id, voter, endpoints, timeout))]
pub(crate) fn admin_add_raft_voter(
    py: Python<'_>,
    admin: &Admin,
    cluster_id: Option<String>,
    voter: Voter,
    endpoints: Vec<(String, String, u16)>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let voter = voter_key(voter);
    let work = move |core: Core, time| async move {
        core.add_raft_voter(cluster_id.as_deref(), voter, &endpoints, time).await
    };
    admin.call(py, timeout, work, |py, ()| Ok(py.None()))
}

#[pyfunction]
#[pyo3(signature = (admin, cluster_id, voter, timeout))]
pub(crate) fn admin_remove_raft_voter(
    py: Python<'_>,
    admin: &Admin,
    cluster_id: Option<String>,
    voter: Voter,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let voter = voter_key(voter);
    let work = move |core: Core, time| async move { core.remove_raft_voter(cluster_id.as_deref(), voter, time).await };
    admin.call(py, timeout, work, |py, ()| Ok(py.None()))
}

#[pyfunction]
#[pyo3(signature = (admin, broker, timeout))]
pub(crate) fn admin_unregister_broker(
    py: Python<'_>,
    admin: &Admin,
    broker: i32,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = move |core: Core, time| async move { core.unregister_broker(broker, time).await };
    admin.call(py, timeout, work, |py, ()| Ok(py.None()))
}

#[pyfunction]
#[pyo3(signature = (admin, controller, timeout))]
pub(crate) fn admin_unregister_controller(
    py: Python<'_>,
    admin: &Admin,
    controller: i32,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = move |core: Core, time| async move { core.unregister_controller(controller, time).await };
    admin.call(py, timeout, work, |py, ()| Ok(py.None()))
}
