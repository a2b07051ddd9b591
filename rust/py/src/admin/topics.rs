//! Topics and partitions, and deletion of records.

use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_client::admin::{NewPartitions, NewTopic, TopicDescription, TopicListing, TopicRef};
use samsarrow_client::types::TopicPartition;

use super::{Admin, codes, keyed_results};
use crate::conversions::{Tp, tp, tuple};

/// Name, number of partitions, replication factor, replicas of each partition, and configs of a new topic.
type Topic = (String, i32, i16, Vec<Vec<i32>>, Vec<(String, String)>);
/// Topic name, or topic id if the name is None.
type RefTuple = (Option<String>, Vec<u8>);
/// Partition, leader, leader epoch, replicas, in-sync replicas, offline replicas, eligible leaders, last known eligible
/// leaders.
type Partition = (i32, Option<i32>, Option<i32>, Vec<i32>, Vec<i32>, Vec<i32>, Option<Vec<i32>>, Option<Vec<i32>>);

fn topic_ref((name, id): RefTuple) -> TopicRef {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(id).for_each(|(to, from)| *to = from);
    name.map_or(TopicRef::Id(bytes), TopicRef::Name)
}

fn topic_ref_tuple(topic: TopicRef) -> (Option<String>, [u8; 16]) {
    match topic {
        TopicRef::Name(name) => (Some(name), [0; 16]),
        TopicRef::Id(id) => (None, id),
    }
}

#[pyfunction]
#[pyo3(signature = (admin, topics, validate_only, timeout))]
pub(crate) fn admin_create_topics(
    py: Python<'_>,
    admin: &Admin,
    topics: Vec<Topic>,
    validate_only: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let convert = |(name, num_partitions, replication_factor, assignment, configs): Topic| NewTopic {
        name,
        num_partitions,
        replication_factor,
        assignment,
        configs,
    };
    let topics: Vec<NewTopic> = topics.into_iter().map(convert).collect();
    let work = |core: super::Core, time| async move { core.create_topics(&topics, validate_only, time).await };
    admin.call(py, timeout, work, |py, done| {
        keyed_results(py, done, |name| name, |t| (t.topic_id.0, t.num_partitions, t.replication_factor))
    })
}

#[pyfunction]
#[pyo3(signature = (admin, topics, timeout))]
pub(crate) fn admin_delete_topics(
    py: Python<'_>,
    admin: &Admin,
    topics: Vec<RefTuple>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let topics: Vec<TopicRef> = topics.into_iter().map(topic_ref).collect();
    let work = |core: super::Core, time| async move { core.delete_topics(&topics, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, topic_ref_tuple, |()| ()))
}

#[pyfunction]
#[pyo3(signature = (admin, names, timeout))]
pub(crate) fn admin_list_topics(
    py: Python<'_>,
    admin: &Admin,
    names: Option<Vec<String>>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = |core: super::Core, time| async move { core.find_topics(names.as_deref(), time).await };
    let listing = |t: TopicListing| (t.topic_id.0, t.partitions, t.internal);
    admin.call(py, timeout, work, move |py, done| keyed_results(py, done, |name: String| name, listing))
}

#[pyfunction]
#[pyo3(signature = (admin, topics, page, operations, timeout))]
pub(crate) fn admin_describe_topics(
    py: Python<'_>,
    admin: &Admin,
    topics: Vec<RefTuple>,
    page: i32,
    operations: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let topics: Vec<TopicRef> = topics.into_iter().map(topic_ref).collect();
    let work =
        move |core: super::Core, time| async move { core.describe_topics(&topics, page, operations, time).await };
    let described = |t: TopicDescription| {
        let partition = |p: samsarrow_client::admin::PartitionDescription| -> Partition {
            (p.partition, p.leader, p.leader_epoch, p.replicas, p.isr, p.offline, p.eligible, p.last_eligible)
        };
        let partitions: Vec<_> = t.partitions.into_iter().map(partition).collect();
        (t.name, t.topic_id.0, t.internal, partitions, codes(t.operations))
    };
    admin.call(py, timeout, work, move |py, done| keyed_results(py, done, topic_ref_tuple, described))
}

/// Topic name, total number of partitions, and the replicas of each new partition.
type NewCount = (String, i32, Option<Vec<Vec<i32>>>);

#[pyfunction]
#[pyo3(signature = (admin, counts, validate_only, timeout))]
pub(crate) fn admin_create_partitions(
    py: Python<'_>,
    admin: &Admin,
    counts: Vec<NewCount>,
    validate_only: bool,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let convert = |(name, count, assignment): NewCount| (name, NewPartitions { count, assignment });
    let counts = counts.into_iter().map(convert).collect();
    let work = move |core: super::Core, time| async move { core.create_partitions(&counts, validate_only, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, |name| name, |()| ()))
}

#[pyfunction]
#[pyo3(signature = (admin, before, timeout))]
pub(crate) fn admin_delete_records(
    py: Python<'_>,
    admin: &Admin,
    before: Vec<(Tp, i64)>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let before = before.iter().map(|(pair, offset)| (tp(pair), *offset)).collect();
    let work = move |core: super::Core, time| async move { core.delete_records(&before, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, |tp: TopicPartition| tuple(&tp), |low| low))
}
