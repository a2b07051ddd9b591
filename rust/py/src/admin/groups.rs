//! Consumer groups and their members.

use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_client::admin::{GroupDescription, GroupFilter, RemovedMember};

use super::{Admin, Core, codes, keyed_results, list_of};
use crate::conversions::{Tp, tuples};

/// Member id, instance id, client id, host, assignment and target assignment of a member.
type Member = (String, Option<String>, String, String, Vec<Tp>, Option<Vec<Tp>>);
/// Type, state, protocol type, assignor, members and authorized operations of a group.
type GroupTuple = (&'static str, String, String, String, Vec<Member>, Option<Vec<i8>>);

fn group_tuple(group: GroupDescription) -> GroupTuple {
    let members = group.members.into_iter().map(|m| {
        let target = m.target.as_deref().map(tuples);
        (m.member_id, m.instance_id, m.client_id, m.host, tuples(&m.assignment), target)
    });
    (group.kind, group.state, group.protocol_type, group.assignor, members.collect(), codes(group.operations))
}

/// Returns the id, host and port of the coordinator.
#[pyfunction]
#[pyo3(signature = (admin, group, timeout))]
pub(crate) fn admin_find_coordinator(
    py: Python<'_>,
    admin: &Admin,
    group: String,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.find_coordinator(&group, time).await };
    admin.call(py, timeout, work, |py, node| pyo3::IntoPyObjectExt::into_py_any((node.id, node.host, node.port), py))
}

/// Returns the name, protocol type, state and type of each group.
#[pyfunction]
#[pyo3(signature = (admin, states, kinds, protocol_types, timeout))]
pub(crate) fn admin_list_groups(
    py: Python<'_>,
    admin: &Admin,
    states: Vec<String>,
    kinds: Vec<String>,
    protocol_types: Vec<String>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let filter = GroupFilter { states, kinds, protocol_types };
    let work = |core: Core, time| async move { core.list_groups(&filter, time).await };
    admin.call(py, timeout, work, |py, groups| list_of(py, groups, |g| (g.group, g.protocol_type, g.state, g.kind)))
}

#[pyfunction]
#[pyo3(signature = (admin, groups, operations, timeout))]
pub(crate) fn admin_describe_groups(
    py: Python<'_>,
    admin: &Admin,
    groups: Vec<String>,
    operations: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = move |core: Core, time| async move { core.describe_groups(&groups, operations, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, |group| group, group_tuple))
}

#[pyfunction]
#[pyo3(signature = (admin, groups, timeout))]
pub(crate) fn admin_delete_groups(
    py: Python<'_>,
    admin: &Admin,
    groups: Vec<String>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.delete_groups(&groups, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, |group| group, |()| ()))
}

/// Removes members from a group. Each member is given by its member id and instance id; None removes all members.
#[pyfunction]
#[pyo3(signature = (admin, group, members, reason, timeout))]
pub(crate) fn admin_remove_members(
    py: Python<'_>,
    admin: &Admin,
    group: String,
    members: Option<Vec<(String, Option<String>)>>,
    reason: String,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let convert = |(member_id, instance_id)| RemovedMember { member_id, instance_id };
    let members: Option<Vec<RemovedMember>> = members.map(|members| members.into_iter().map(convert).collect());
    let work = |core: Core, time| async move { core.remove_members(&group, members.as_deref(), &reason, time).await };
    admin.call(py, timeout, work, |py, done| {
        keyed_results(py, done, |m: RemovedMember| (m.member_id, m.instance_id), |()| ())
    })
}
