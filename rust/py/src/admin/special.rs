//! Share groups and groups of Kafka Streams.

use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::error::to_py_value;
use samsarrow_client::admin::{
    ShareGroupDescription, ShareMember, StreamsGroupDescription, StreamsMember, Subtopology,
};
use samsarrow_client::types::TopicPartition;

use super::{Admin, Core, said};
use crate::partitions::{Tp, tp, tuple, tuples};

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
    admin.call(py, timeout, work, move |py, done| said(py, done, |name| name, group))
}

#[pyfunction]
#[pyo3(signature = (admin, groups, timeout))]
pub(crate) fn admin_describe_streams_groups(
    py: Python<'_>,
    admin: &Admin,
    groups: Vec<String>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.describe_streams_groups(&groups, time).await };
    let part = |s: Subtopology| (s.id, s.sources, s.sinks, s.changelogs, s.repartitions);
    let member = |m: StreamsMember| {
        let whom = (m.member_id, m.epoch, m.instance_id, m.rack, m.client_id, m.host, m.topology_epoch, m.process_id);
        let ([active, standby, warmup], [target, target_standby, target_warmup]) = (m.assignment, m.target);
        (whom, (active, standby, warmup), (target, target_standby, target_warmup))
    };
    let group = move |g: StreamsGroupDescription| {
        let parts: Vec<_> = g.subtopologies.into_iter().map(part).collect();
        let members: Vec<_> = g.members.into_iter().map(member).collect();
        (g.state, g.epoch, g.assignment_epoch, g.topology_epoch, parts, members)
    };
    admin.call(py, timeout, work, move |py, done| said(py, done, |name| name, group))
}

/// For each partition of a group: start, leader epoch and lag, the exception if they are not known.
#[pyfunction]
#[pyo3(signature = (admin, groups, timeout))]
pub(crate) fn admin_list_share_offsets(
    py: Python<'_>,
    admin: &Admin,
    groups: Vec<(String, Option<Vec<Tp>>)>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let one = |(group, tps): (String, Option<Vec<Tp>>)| (group, tps.map(|tps| tps.iter().map(tp).collect()));
    let wanted = groups.into_iter().map(one).collect();
    let work = |core: Core, time| async move { core.list_share_offsets(&wanted, time).await };
    admin.call(py, timeout, work, |py, done| {
        let one = |(at, found): (TopicPartition, samsarrow_client::error::Result<_>)| {
            let plain = |at: samsarrow_client::admin::ShareOffset| (at.start, at.leader_epoch, at.lag);
            let (found, error) = match found {
                Ok(found) => (Option::map(found, plain), None),
                Err(error) => (None, Some(to_py_value(py, &error))),
            };
            (tuple(&at), found, error)
        };
        said(py, done, |group| group, |its| its.into_iter().map(one).collect::<Vec<_>>())
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
    let offsets = offsets.iter().map(|(at, offset)| (tp(at), *offset)).collect();
    let work = |core: Core, time| async move { core.alter_share_offsets(&group, &offsets, time).await };
    admin.call(py, timeout, work, |py, done| said(py, done, |at: TopicPartition| tuple(&at), |()| ()))
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
    admin.call(py, timeout, work, |py, done| said(py, done, |topic| topic, |()| ()))
}
