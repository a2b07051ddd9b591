//! Transactions and producers.

use std::time::Duration;

use pyo3::prelude::*;
use samsarrow_bridge::call::Call;
use samsarrow_bridge::runtime::seconds;
use samsarrow_client::admin::{ProducerState, TransactionDescription, TransactionFilter};
use samsarrow_client::types::TopicPartition;

use super::{Admin, Core, keyed_results, list_of};
use crate::conversions::{Tp, tp, tuple, tuples};

/// State of a producer in a partition: producer id, epoch, last sequence, last timestamp, coordinator epoch, and start
/// offset of the open transaction.
type Producer = (i64, i32, i32, i64, Option<i32>, Option<i64>);

fn producer(p: ProducerState) -> Producer {
    (p.producer_id, p.producer_epoch, p.last_sequence, p.last_timestamp, p.coordinator_epoch, p.transaction_start)
}

#[pyfunction]
#[pyo3(signature = (admin, states, producer_ids, longer_than, pattern, timeout))]
pub(crate) fn admin_list_transactions(
    py: Python<'_>,
    admin: &Admin,
    states: Vec<String>,
    producer_ids: Vec<i64>,
    longer_than: Option<f64>,
    pattern: Option<String>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let longer_than = longer_than.map(|value| seconds(py, Some(value), Duration::ZERO)).transpose()?;
    let filter = TransactionFilter { states, producer_ids, longer_than, pattern };
    let work = |core: Core, time| async move { core.list_transactions(&filter, time).await };
    admin.call(py, timeout, work, |py, transactions| {
        list_of(py, transactions, |t| (t.transactional_id, t.producer_id, t.state))
    })
}

#[pyfunction]
#[pyo3(signature = (admin, ids, timeout))]
pub(crate) fn admin_describe_transactions(
    py: Python<'_>,
    admin: &Admin,
    ids: Vec<String>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.describe_transactions(&ids, time).await };
    let convert = |t: TransactionDescription| {
        let partitions = tuples(&t.partitions);
        (t.coordinator, t.state, t.producer_id, t.producer_epoch, t.timeout_ms, t.start, partitions)
    };
    admin.call(py, timeout, work, move |py, done| keyed_results(py, done, |id| id, convert))
}

#[pyfunction]
#[pyo3(signature = (admin, partitions, timeout))]
pub(crate) fn admin_describe_producers(
    py: Python<'_>,
    admin: &Admin,
    partitions: Vec<Tp>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let partitions: Vec<_> = partitions.iter().map(tp).collect();
    let work = |core: Core, time| async move { core.describe_producers(&partitions, time).await };
    admin.call(py, timeout, work, |py, done| {
        let producers = |states: Vec<ProducerState>| states.into_iter().map(producer).collect::<Vec<_>>();
        keyed_results(py, done, |tp: TopicPartition| tuple(&tp), producers)
    })
}

#[pyfunction]
#[pyo3(signature = (admin, partition, producer_id, producer_epoch, coordinator_epoch, timeout))]
pub(crate) fn admin_abort_transaction(
    py: Python<'_>,
    admin: &Admin,
    partition: Tp,
    producer_id: i64,
    producer_epoch: i16,
    coordinator_epoch: Option<i32>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let (partition, producer) = (tp(&partition), (producer_id, producer_epoch));
    let work = move |core: Core, time| async move {
        core.abort_transaction(&partition, producer, coordinator_epoch, time).await
    };
    admin.call(py, timeout, work, |py, ()| Ok(py.None()))
}

#[pyfunction]
#[pyo3(signature = (admin, ids, timeout))]
pub(crate) fn admin_fence_producers(
    py: Python<'_>,
    admin: &Admin,
    ids: Vec<String>,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let work = |core: Core, time| async move { core.fence_producers(&ids, time).await };
    admin.call(py, timeout, work, |py, done| keyed_results(py, done, |id| id, |fenced| fenced))
}

#[pyfunction]
#[pyo3(signature = (admin, partitions, longer_than, timeout))]
pub(crate) fn admin_find_hanging(
    py: Python<'_>,
    admin: &Admin,
    partitions: Option<Vec<Tp>>,
    longer_than: f64,
    timeout: Option<f64>,
) -> PyResult<Call> {
    let longer_than = seconds(py, Some(longer_than), Duration::ZERO)?;
    let partitions: Option<Vec<TopicPartition>> = partitions.map(|pairs| pairs.iter().map(tp).collect());
    let work = move |core: Core, time| async move { core.find_hanging(partitions.as_deref(), longer_than, time).await };
    admin.call(py, timeout, work, |py, transactions| {
        list_of(py, transactions, |t| (tuple(&t.partition), producer(t.producer), t.transactional_id))
    })
}
