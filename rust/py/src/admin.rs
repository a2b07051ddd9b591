//! Admin as Python calls it.

use pyo3::prelude::*;
use samsarrow_client::admin::{
    Admin as Core, CommitSettings, FetchSettings, GroupDescription, NewTopic, PerPartition, PerTopic,
};
use samsarrow_client::config::ClientKind;
use samsarrow_client::types::OffsetAndMetadata;

use crate::config;
use crate::consumer::{Committed, Tp, tp, tuple, tuples};
use crate::error::{to_py, to_py_value};
use crate::runtime::{Owned, run, seconds};

/// Name, partitions, replication factor, configs.
type Topic = (String, i32, i16, Vec<(String, String)>);
/// Name, id, number of partitions, internal.
type Listing = (String, [u8; 16], usize, bool);
/// Name and the exception, if it failed.
type Outcomes = Vec<(String, Option<Py<PyAny>>)>;

/// Partition and the exception, if it failed.
type PartitionOutcomes = Vec<(Tp, Option<Py<PyAny>>)>;
/// A group, what it has committed, the exception if it cannot be told.
type GroupOffsets = (String, Vec<(Tp, Option<Committed>)>, Option<Py<PyAny>>);

/// Name, protocol type, state, kind.
type ListedGroup = (String, String, Option<String>, Option<String>);
/// Id, instance id, client id, host, assignment, target assignment.
type Member = (String, Option<String>, String, String, Vec<Tp>, Option<Vec<Tp>>);
/// Kind, state, protocol type, assignor, members.
type Described = (&'static str, String, String, String, Vec<Member>);

/// A group, what is known of it, the exception if nothing is.
type DescribedGroup = (String, Option<Described>, Option<Py<PyAny>>);

/// See `samsarrow.Admin`.
#[pyclass(frozen, module = "samsarrow._core")]
pub(crate) struct Admin {
    core: Owned<Core>,
}

#[pymethods]
impl Admin {
    #[new]
    fn new(py: Python<'_>, options: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let options = config::parse(py, ClientKind::Admin, options)?;
        let core = Core::new(&options).map_err(|error| to_py(py, &error))?;
        Ok(Self { core: Owned::new("admin client", core) })
    }

    #[pyo3(signature = (topics, timeout))]
    fn create_topics(&self, py: Python<'_>, topics: Vec<Topic>, timeout: Option<f64>) -> PyResult<Outcomes> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let one = |(name, num_partitions, replication_factor, configs): Topic| NewTopic {
            name,
            num_partitions,
            replication_factor,
            configs,
        };
        let topics = topics.into_iter().map(one).collect();
        run(py, core.create_topics(topics, timeout)).map(|done| outcomes(py, done))
    }

    #[pyo3(signature = (names, timeout))]
    fn delete_topics(&self, py: Python<'_>, names: Vec<String>, timeout: Option<f64>) -> PyResult<Outcomes> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        run(py, core.delete_topics(&names, timeout)).map(|done| outcomes(py, done))
    }

    #[pyo3(signature = (names, timeout))]
    fn list_topics(&self, py: Python<'_>, names: Option<Vec<String>>, timeout: Option<f64>) -> PyResult<Vec<Listing>> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let topics = run(py, core.list_topics(names.as_deref(), timeout))?;
        Ok(topics.into_iter().map(|t| (t.name, t.topic_id.0, t.partitions, t.internal)).collect())
    }

    /// `retention` is in seconds, `timestamp` in milliseconds since 1970.
    #[pyo3(signature = (group, offsets, version, retention, timestamp, timeout))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python method")]
    fn commit_offsets(
        &self,
        py: Python<'_>,
        group: &str,
        offsets: Vec<(Tp, Committed)>,
        version: Option<i16>,
        retention: Option<f64>,
        timestamp: Option<i64>,
        timeout: Option<f64>,
    ) -> PyResult<PartitionOutcomes> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let retention = retention.map(|given| seconds(py, Some(given), timeout)).transpose()?;
        let one = |(at, (offset, metadata, leader_epoch)): (Tp, Committed)| {
            (tp(&at), OffsetAndMetadata { offset, metadata, leader_epoch })
        };
        let offsets: Vec<_> = offsets.into_iter().map(one).collect();
        let settings = CommitSettings { version, retention, timestamp };
        run(py, core.commit_offsets(group, &offsets, &settings, timeout)).map(|done| partition_outcomes(py, done))
    }

    /// No partitions stand for all that the group has.
    #[pyo3(signature = (groups, version, require_stable, timeout))]
    fn fetch_offsets(
        &self,
        py: Python<'_>,
        groups: Vec<(String, Option<Vec<Tp>>)>,
        version: Option<i16>,
        require_stable: bool,
        timeout: Option<f64>,
    ) -> PyResult<Vec<GroupOffsets>> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let one = |(group, tps): (String, Option<Vec<Tp>>)| (group, tps.map(|tps| tps.iter().map(tp).collect()));
        let groups: Vec<_> = groups.into_iter().map(one).collect();
        let settings = FetchSettings { version, require_stable };
        let found = run(py, core.fetch_offsets(&groups, &settings, timeout))?;
        let plain = |at: OffsetAndMetadata| (at.offset, at.metadata, at.leader_epoch);
        let one = |(group, found)| match found {
            Ok(found) => {
                let found: samsarrow_client::admin::Fetched = found;
                (group, found.into_iter().map(|(tp, at)| (tuple(&tp), at.map(plain))).collect(), None)
            }
            Err(error) => (group, Vec::new(), Some(to_py_value(py, &error))),
        };
        Ok(found.into_iter().map(one).collect())
    }

    /// Id, host and port.
    #[pyo3(signature = (group, timeout))]
    fn find_coordinator(&self, py: Python<'_>, group: &str, timeout: Option<f64>) -> PyResult<(i32, String, i32)> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let node = run(py, core.find_coordinator(group, timeout))?;
        Ok((node.id, node.host, node.port))
    }

    /// Name, protocol type, state, kind.
    #[pyo3(signature = (timeout))]
    fn list_groups(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<ListedGroup>> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let groups = run(py, core.list_groups(timeout))?;
        Ok(groups.into_iter().map(|g| (g.group, g.protocol_type, g.state, g.kind)).collect())
    }

    #[pyo3(signature = (groups, timeout))]
    fn describe_groups(
        &self,
        py: Python<'_>,
        groups: Vec<String>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<DescribedGroup>> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let done = run(py, core.describe_groups(&groups, timeout))?;
        let one = |(group, said)| match said {
            Ok(found) => (group, Some(described(found)), None),
            Err(error) => (group, None, Some(to_py_value(py, &error))),
        };
        Ok(done.into_iter().map(one).collect())
    }

    #[pyo3(signature = (groups, timeout))]
    fn delete_groups(&self, py: Python<'_>, groups: Vec<String>, timeout: Option<f64>) -> PyResult<Outcomes> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        run(py, core.delete_groups(&groups, timeout)).map(|done| outcomes(py, done))
    }

    #[pyo3(signature = (group, partitions, timeout))]
    fn delete_offsets(
        &self,
        py: Python<'_>,
        group: &str,
        partitions: Vec<Tp>,
        timeout: Option<f64>,
    ) -> PyResult<PartitionOutcomes> {
        let core = self.core.get(py)?;
        let timeout = seconds(py, timeout, core.default_timeout())?;
        let partitions: Vec<_> = partitions.iter().map(tp).collect();
        run(py, core.delete_offsets(group, &partitions, timeout)).map(|done| partition_outcomes(py, done))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let core = self.core.get(py)?;
        run(py, async {
            core.close().await;
            Ok(())
        })
    }
}

fn outcomes(py: Python<'_>, done: PerTopic) -> Outcomes {
    done.into_iter().map(|(name, outcome)| (name, outcome.err().map(|error| to_py_value(py, &error)))).collect()
}

fn partition_outcomes(py: Python<'_>, done: PerPartition) -> PartitionOutcomes {
    done.into_iter().map(|(tp, outcome)| (tuple(&tp), outcome.err().map(|error| to_py_value(py, &error)))).collect()
}

fn described(found: GroupDescription) -> Described {
    let members = found.members.into_iter().map(|m| {
        let target = m.target.as_deref().map(tuples);
        (m.member_id, m.instance_id, m.client_id, m.host, tuples(&m.assignment), target)
    });
    (found.kind, found.state, found.protocol_type, found.assignor, members.collect())
}
