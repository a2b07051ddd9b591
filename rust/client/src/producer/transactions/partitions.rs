//! Registration of partitions with the coordinator before records are written to them (protocol V1).

use std::collections::BTreeMap;
use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::add_partitions_to_txn::{AddPartitionsToTxnTopic, AddPartitionsToTxnTopicResult};
use samsarrow_wire::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, Request};

use super::shared::not_transactional;
use crate::cluster::ApiVersionOverride;
use crate::cluster::coordinator::Verdict;
use crate::error::{Error, Result};
use crate::producer::batch::ProducerIdAndEpoch;
use crate::producer::shared::Shared;
use crate::producer::transactions::state::Transaction;
use crate::producer::transactions::{NO_TIMEOUT, Transactions, fenced_or};
use crate::types::join_limited;

/// Newest version of AddPartitionsToTxn for clients. Later versions are used between brokers.
const MAX_CLIENT_VERSION: i16 = 3;

/// Partitions of one request, by topic.
type Names = BTreeMap<String, Vec<i32>>;

/// Registers the unregistered partitions. The sender starts one registration at a time. Partitions that are added
/// during a registration are part of the next registration.
pub(crate) async fn register(shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    let failure = tokio::select! {
        done = register_once(&shared) => done.err(),
        _ = stop.wait_for(|stop| *stop) => None,
    };
    if let Some(error) = failure {
        shared.fail_transaction(error, true);
    }
    if let Some(transaction) = &mut shared.lock().transaction {
        transaction.registering = false;
    }
    if let Some(transactions) = &shared.transactions {
        transactions.notify_changed();
    }
    shared.wake.notify_one();
}

async fn register_once(shared: &Shared) -> Result<()> {
    let transactions = shared.transactions.as_ref().ok_or_else(|| not_transactional("a registration"))?;
    let (slots, names, identity) = {
        let accumulator = shared.lock();
        let slots = accumulator.transaction.as_ref().map(Transaction::unregistered).unwrap_or_default();
        let mut names = Names::new();
        for slot in &slots {
            let Some(topic) = accumulator.topic(slot.topic) else {
                return Err(Error::State(format!("a partition of topic number {} cannot be registered", slot.topic)));
            };
            names.entry(topic.name.to_string()).or_default().push(slot.partition as i32);
        }
        let identity = accumulator.identity.ok_or_else(|| Error::closed("the producer's identity"))?;
        (slots, names, identity)
    };
    let taken = transactions.add_partitions(shared, identity, &names).await?;
    let list = || names.iter().flat_map(|(name, list)| list.iter().map(move |partition| format!("{name}-{partition}")));
    tracing::debug!(
        client_id = shared.cluster.client_id(),
        transactional_id = shared.settings.transactional_id.as_deref(),
        "added to the transaction: {}",
        join_limited(list())
    );
    if let Some(transaction) = &mut shared.lock().transaction {
        if taken {
            transaction.registered(&slots);
        } else {
            transaction.forget_unregistered();
        }
    }
    Ok(())
}

impl Transactions {
    /// Registers partitions with the coordinator. Returns false if the transaction ended before the coordinator
    /// accepted them.
    async fn add_partitions(&self, shared: &Shared, identity: ProducerIdAndEpoch, names: &Names) -> Result<bool> {
        let topics = || {
            names.iter().map(|(name, partitions)| AddPartitionsToTxnTopic {
                name: name.clone(),
                partitions: partitions.clone(),
                ..Default::default()
            })
        };
        let build = |_| {
            Ok(AddPartitionsToTxnRequest {
                v3_and_below_transactional_id: self.id.to_string(),
                v3_and_below_producer_id: identity.producer_id,
                v3_and_below_producer_epoch: identity.epoch,
                v3_and_below_topics: topics().collect(),
                ..Default::default()
            })
        };
        let judge = |_, response: AddPartitionsToTxnResponse| {
            let verdict = self.judge(names, &response.results_by_topic_v3_and_below)?;
            // The request failed with a retriable error, but the transaction has ended.
            let over = !matches!(verdict, Verdict::Done(_)) && !in_progress(shared);
            Ok(if over { Verdict::Done(false) } else { verdict })
        };
        let limited = |cluster: &crate::cluster::Cluster| {
            cluster.with_version(AddPartitionsToTxnRequest::KEY, ApiVersionOverride::AtMost(MAX_CLIENT_VERSION))
        };
        self.coordinator.with(limited).call(NO_TIMEOUT, build, judge).await
    }

    /// Evaluates a response. One rejected partition fails the whole request, with the error of that partition.
    fn judge(&self, names: &Names, results: &[AddPartitionsToTxnTopicResult]) -> Result<Verdict<bool>> {
        let mut retry = None;
        let mut rejected = None;
        let mut results_seen = 0;
        for topic in results {
            for partition in &topic.results_by_partition {
                results_seen += 1;
                // Without an error the partition is registered.
                let Err(code) = ErrorCode::from_i16(partition.partition_error_code).ok() else { continue };
                let context = format!("AddPartitionsToTxn of {}-{}", topic.name, partition.partition_index);
                match Verdict::of(fenced_or(code), &self.context(&context)) {
                    Ok(verdict) => retry = Some(verdict),
                    Err(error) if code == ErrorCode::OPERATION_NOT_ATTEMPTED => rejected = rejected.or(Some(error)),
                    Err(error) => return Err(error),
                }
            }
        }
        if let Some(retry) = retry {
            return Ok(retry);
        }
        if let Some(error) = rejected {
            return Err(error);
        }
        let requested: usize = names.values().map(Vec::len).sum();
        if results_seen < requested {
            let text = format!("the response leaves out {} of {requested} partitions", requested - results_seen);
            return Err(Error::protocol(self.context("the response to AddPartitionsToTxn"), text));
        }
        Ok(Verdict::Done(true))
    }
}

/// Returns true while requests may be retried, which is the case while the transaction is open or being committed.
pub(super) fn in_progress(shared: &Shared) -> bool {
    shared.lock().transaction.as_ref().is_some_and(Transaction::in_progress)
}
