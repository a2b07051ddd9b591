//! Share groups and their offsets (KIP-932).

use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::error::to_py_value;
use samsarrow_client::admin::{ShareGroupDescription, ShareMember};
use samsarrow_client::types::TopicPartition;

use super::{Admin, Core, keyed_results};
use crate::conversions::{Tp, tp, tuple, tuples};

#[pyfunction]
#[pyo3(signature = (admin, groups, timeout))]
pub(crate) fn admin_describe_share_groups(
    py: Python<'_>,
    admin: &Admin,
    groups: Vec<String>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.describe_share_groups(&groups, time).await };
    let member = |m: ShareMember| {
        let assignment = tuples(&m.assignment);
        (m.member_id, m.rack, m.epoch, m.client_id, m.host, m.topics, assignment)
    };
    let group = move |g: ShareGroupDescription| {
        let members: Vec<_> = g.members.into_iter().map(member).collect();
        (g.state, g.epoch, g.assignment_epoch, g.assignor, members)
    };
    admin.call(py, timeout, work, move |py, done| keyed_results(py, done, |name| name, group))
}

/// Returns for each partition of a group the start offset, the leader epoch and the lag, or an exception.
#[pyfunction]
#[pyo3(signature = (admin, groups, timeout))]
pub(crate) fn admin_list_share_offsets(
    py: Python<'_>,
    admin: &Admin,
    groups: Vec<(String, Option<Vec<Tp>>)>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let convert = |(group, tps): (String, Option<Vec<Tp>>)| (group, tps.map(|tps| tps.iter().map(tp).collect()));
    let requested = groups.into_iter().map(convert).collect();
    let work = |core: Core, time| async move { core.list_share_offsets(&requested, time).await };
    admin.call(py, timeout, work, |py, done| {
        let convert = |(tp, result): (TopicPartition, samsarrow_client::error::Result<_>)| {
            let values = |offset: samsarrow_client::admin::ShareOffset| (offset.start, offset.leader_epoch, offset.lag);
            let (offset, error) = match result {
                Ok(offset) => (Option::map(offset, values), None),
                Err(error) => (None, Some(to_py_value(py, &error))),
            };
            (tuple(&tp), offset, error)
        };
        keyed_results(py, done, |group| group, |partitions| partitions.into_iter().map(convert).collect::<Vec<_>>())
    })
}

#[pyfunction]
#[pyo3(signature = (admin, group, offsets, timeout))]
pub(crate) fn admin_alter_share_offsets(
    py: Python<'_>,
    admin: &Admin,
    group: String,
    offsets: Vec<(Tp, i64)>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let offsets = offsets.iter().map(|(pair, offset)| (tp(pair), *offset)).collect();
    let work = |core: Core, time| async move { core.alter_share_offsets(&group, &offsets, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, |tp: TopicPartition| tuple(&tp), |()| ()))
}

#[pyfunction]
#[pyo3(signature = (admin, group, topics, timeout))]
pub(crate) fn admin_delete_share_offsets(
    py: Python<'_>,
    admin: &Admin,
    group: String,
    topics: Vec<String>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.delete_share_offsets(&group, &topics, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, |topic| topic, |()| ()))
}
