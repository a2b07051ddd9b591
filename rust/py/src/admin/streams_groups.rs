//! Groups of Kafka Streams applications (KIP-1071).

use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_client::admin::{StreamsGroupDescription, StreamsMember, Subtopology};

use super::{Admin, Core, keyed_results};

#[pyfunction]
#[pyo3(signature = (admin, groups, timeout))]
pub(crate) fn admin_describe_streams_groups(
    py: Python<'_>,
    admin: &Admin,
    groups: Vec<String>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.describe_streams_groups(&groups, time).await };
    let subtopology = |s: Subtopology| (s.id, s.sources, s.sinks, s.changelogs, s.repartitions);
    let member = |m: StreamsMember| {
        let identity =
            (m.member_id, m.epoch, m.instance_id, m.rack, m.client_id, m.host, m.topology_epoch, m.process_id);
        let ([active, standby, warmup], [target, target_standby, target_warmup]) = (m.assignment, m.target);
        (identity, (active, standby, warmup), (target, target_standby, target_warmup))
    };
    let group = move |g: StreamsGroupDescription| {
        let subtopologies: Vec<_> = g.subtopologies.into_iter().map(subtopology).collect();
        let members: Vec<_> = g.members.into_iter().map(member).collect();
        (g.state, g.epoch, g.assignment_epoch, g.topology_epoch, g.assignor, subtopologies, members)
    };
    admin.call(py, timeout, work, move |py, done| keyed_results(py, done, |name| name, group))
}
