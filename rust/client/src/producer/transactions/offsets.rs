//! Consumer offsets committed as part of a transaction.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::txn_offset_commit::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic};
use samsarrow_wire::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, Request, TxnOffsetCommitRequest, TxnOffsetCommitResponse, Uuid,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::partitions::in_progress;
use super::shared::{not_transactional, transaction_of};
use crate::cluster::coordinator::Verdict;
use crate::cluster::metadata::Metadata;
use crate::defects::Defect;
use crate::error::{Error, Result};
use crate::group::Offsets;
use crate::group::membership::MemberIdentity as Member;
use crate::offsets::{PATIENCE, by_topic};
use crate::producer::batch::ProducerIdAndEpoch;
use crate::producer::shared::Shared;
use crate::producer::transactions::state::Protocol;
use crate::producer::transactions::{NO_TIMEOUT, OFFSETS_V2, Transactions, fenced_or, too_old, with_protocol};
use crate::types::{TopicPartition, join_limited};

/// First version of TxnOffsetCommit with member ID and generation (KIP-447).
const FIRST_WITH_MEMBER: i16 = 3;
/// First version of TxnOffsetCommit with topic ids instead of names (KIP-1319).
const FIRST_WITH_TOPIC_IDS: i16 = 6;
const CALL: &str = "send_offsets_to_transaction";

/// Topic ids by name.
pub type TopicIdsByName = BTreeMap<Arc<str>, Uuid>;

/// Consumer group of the offsets, and the member that has processed the records.
#[derive(Debug, Clone, Default)]
pub struct GroupMember {
    /// Group ID.
    pub group: String,
    /// Member identity as returned by `Consumer::group_metadata`; a generation of −1 disables fencing of members.
    pub member: Member,
    /// Ids of the topics that the member reads, as returned by `Consumer::topic_ids`. The metadata of the producer
    /// determines the ids of other topics.
    pub topic_ids: TopicIdsByName,
}

/// Adds offsets to the open transaction.
pub(crate) async fn send(shared: &Arc<Shared>, member: GroupMember, offsets: Offsets, limit: Duration) -> Result<()> {
    let (identity, protocol) = {
        let mut accumulator = shared.lock();
        accumulator.check_open()?;
        let identity = accumulator.identity;
        let transaction = transaction_of(&mut accumulator, CALL)?;
        transaction.check_state(CALL)?;
        if offsets.is_empty() {
            return Ok(());
        }
        transaction.start_clock();
        transaction.pending_offset_requests += 1;
        (identity, transaction.protocol)
    };
    let (sender, outcome) = oneshot::channel();
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let outcome = run(&shared, identity, protocol, &member, &offsets).await;
        if let Some(transaction) = &mut shared.lock().transaction {
            transaction.pending_offset_requests -= 1;
        }
        if let Some(transactions) = &shared.transactions {
            transactions.notify_changed();
        }
        // The caller may have stopped waiting; the commit waits for the request anyway.
        let _ = sender.send(outcome);
    });
    match tokio::time::timeout(limit, outcome).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(Error::closed("the producer")),
        Err(_) => Err(Error::timeout(format!("{CALL} (it continues; the commit waits for it)"), limit)),
    }
}

async fn run(
    shared: &Shared,
    identity: Option<ProducerIdAndEpoch>,
    protocol: Protocol,
    member: &GroupMember,
    offsets: &Offsets,
) -> Result<()> {
    let transactions = shared.transactions.as_ref().ok_or_else(|| not_transactional(CALL))?;
    let identity = identity.ok_or_else(|| Error::closed("the producer's identity"))?;
    let mut stop = shared.stop.subscribe();
    let sending = async {
        if protocol == Protocol::V1 {
            let added = transactions.add_offsets(shared, identity, &member.group).await;
            added.map_err(|error| shared.fail_transaction(error, true))?;
        }
        if let Some(transaction) = &mut shared.lock().transaction {
            // In protocol V2 the group coordinator registers the group with the transaction coordinator.
            transaction.started = true;
        }
        let sent = transactions.commit_offsets(shared, identity, protocol, member, offsets).await;
        sent.map_err(|error| shared.fail_transaction(error, false))
    };
    tokio::select! {
        outcome = sending => outcome,
        _ = stop.wait_for(|stop| *stop) => Err(Error::closed("the producer")),
    }
}

/// Returns the error for a request that failed with a retriable error after the transaction has ended.
fn transaction_ended() -> Error {
    Error::Aborted("the offsets were not sent: the transaction is over".into())
}

impl Transactions {
    /// Registers the group with the transaction coordinator (protocol V1).
    async fn add_offsets(&self, shared: &Shared, identity: ProducerIdAndEpoch, group: &str) -> Result<()> {
        let build = |_| {
            Ok(AddOffsetsToTxnRequest {
                transactional_id: self.id.to_string(),
                producer_id: identity.producer_id,
                producer_epoch: identity.epoch,
                group_id: group.to_owned(),
                ..Default::default()
            })
        };
        let context = self.context(&format!("AddOffsetsToTxn of group {group}"));
        let judge = |_, response: AddOffsetsToTxnResponse| {
            let Err(code) = ErrorCode::from_i16(response.error_code).ok() else { return Ok(Verdict::Done(())) };
            let verdict = Verdict::of(fenced_or(code), &context)?;
            if in_progress(shared) { Ok(verdict) } else { Err(transaction_ended()) }
        };
        self.coordinator.call(NO_TIMEOUT, build, judge).await
    }

    /// Sends the offsets to the group coordinator.
    async fn commit_offsets(
        &self,
        shared: &Shared,
        identity: ProducerIdAndEpoch,
        protocol: Protocol,
        member: &GroupMember,
        offsets: &Offsets,
    ) -> Result<()> {
        let started_at = Instant::now();
        let ids = topic_ids(&shared.cluster.metadata(), member, offsets);
        let build = |version| self.request(version, identity, protocol, member, offsets, &ids);
        let judge = |_, response: TxnOffsetCommitResponse| {
            let is_final = |topic: &str| {
                let metadata = shared.cluster.metadata();
                let latest = metadata.topic(topic).map(|topic| topic.topic_id).filter(|id| !id.is_zero());
                started_at.elapsed() >= PATIENCE || latest.is_some_and(|latest| ids.get(topic) != Some(&latest))
            };
            let verdict = self.judge_offsets(&member.group, offsets, &response, &ids, is_final)?;
            let done = matches!(verdict, Verdict::Done(()));
            if done || in_progress(shared) { Ok(verdict) } else { Err(transaction_ended()) }
        };
        // Without the id of a topic, all topics are identified by name.
        let by_id = offsets.iter().all(|(tp, _)| ids.contains_key(&tp.topic));
        let key = TxnOffsetCommitRequest::KEY;
        let coordinator = self.group_coordinator(&member.group).with(|cluster| {
            match with_protocol(cluster, protocol, key, OFFSETS_V2) {
                cluster if by_id => cluster,
                cluster => cluster.with_max_version(key, FIRST_WITH_TOPIC_IDS - 1),
            }
        });
        coordinator.call(NO_TIMEOUT, build, judge).await
    }

    fn request(
        &self,
        version: i16,
        identity: ProducerIdAndEpoch,
        protocol: Protocol,
        member: &GroupMember,
        offsets: &Offsets,
        ids: &TopicIdsByName,
    ) -> Result<TxnOffsetCommitRequest> {
        if protocol == Protocol::V2 && version < OFFSETS_V2 {
            return Err(too_old(TxnOffsetCommitRequest::KEY, version, OFFSETS_V2));
        }
        let GroupMember { group, member, .. } = member;
        let no_member = member.generation < 0 && member.member_id.is_empty();
        if version < FIRST_WITH_MEMBER && !no_member {
            return Err(Error::UnsupportedVersion(format!(
                "{CALL}: only brokers since Kafka 2.5 (TxnOffsetCommit v{FIRST_WITH_MEMBER}) can reject the offsets of a member that \
                 lost its partitions; pass the group id alone to skip this check"
            )));
        }
        let partition =
            |(partition_index, offset): (i32, crate::types::OffsetAndMetadata)| TxnOffsetCommitRequestPartition {
                partition_index,
                committed_offset: offset.offset,
                committed_leader_epoch: offset.leader_epoch.unwrap_or(-1),
                committed_metadata: Some(offset.metadata),
                ..Default::default()
            };
        let topics = by_topic(offsets.iter().cloned()).into_iter().map(|(name, partitions)| {
            let partitions = partitions.into_iter().map(partition).collect();
            let topic_id = ids.get(&name).copied().unwrap_or(Uuid::ZERO);
            TxnOffsetCommitRequestTopic { name: name.to_string(), topic_id, partitions, ..Default::default() }
        });
        Ok(TxnOffsetCommitRequest {
            transactional_id: self.id.to_string(),
            group_id: group.clone(),
            producer_id: identity.producer_id,
            producer_epoch: identity.epoch,
            generation_id_or_member_epoch: if Defect::UnfencedOffsets.is_on() { -1 } else { member.generation },
            member_id: member.member_id.clone(),
            group_instance_id: member.instance_id.clone(),
            topics: topics.collect(),
            ..Default::default()
        })
    }

    fn judge_offsets(
        &self,
        group: &str,
        offsets: &Offsets,
        response: &TxnOffsetCommitResponse,
        ids: &TopicIdsByName,
        is_final: impl Fn(&str) -> bool,
    ) -> Result<Verdict<()>> {
        let mut retry = None;
        let mut missing: Vec<&TopicPartition> = offsets.iter().map(|(tp, _)| tp).collect();
        for topic in &response.topics {
            let by_id = || ids.iter().find(|(_, id)| **id == topic.topic_id).map_or("", |(name, _)| &**name);
            let name = if topic.name.is_empty() { by_id() } else { &*topic.name };
            for partition in &topic.partitions {
                missing.retain(|tp| (&*tp.topic, tp.partition) != (name, partition.partition_index));
                // Without an error, the offset is pending in the transaction.
                let Err(code) = ErrorCode::from_i16(partition.error_code).ok() else { continue };
                let context = format!("TxnOffsetCommit of {name}-{} for group {group}", partition.partition_index);
                if code == ErrorCode::UNKNOWN_TOPIC_ID && is_final(name) {
                    let text =
                        format!("{}: the topic was deleted, or deleted and created again", self.context(&context));
                    return Err(Error::server(code, text));
                }
                retry = Some(Verdict::of(fenced_or(rebalanced_or(code)), &self.context(&context))?);
            }
        }
        match retry {
            // Committing accepted offsets again has no further effect.
            Some(retry) => Ok(retry),
            None if missing.is_empty() => Ok(Verdict::Done(())),
            None => Err(Error::protocol(
                format!("the coordinator of group {group}"),
                format!("the response to TxnOffsetCommit leaves out {}", join_limited(missing)),
            )),
        }
    }
}

/// Returns the known ids of the topics. The id that the member has read from takes precedence over the metadata, which
/// may already contain a new topic of the same name.
fn topic_ids(metadata: &Metadata, member: &GroupMember, offsets: &Offsets) -> TopicIdsByName {
    let id = |topic: &Arc<str>| {
        let known = member.topic_ids.get(topic).copied();
        known.or_else(|| Some(metadata.topic(topic)?.topic_id)).filter(|id| !id.is_zero())
    };
    offsets.iter().filter_map(|(tp, _)| Some((Arc::clone(&tp.topic), id(&tp.topic)?))).collect()
}

/// Converts the errors for members of an earlier generation that only versions with topic ids return. Earlier versions
/// return ILLEGAL_GENERATION, so applications handle one error on all brokers.
fn rebalanced_or(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::STALE_MEMBER_EPOCH | ErrorCode::GROUP_ID_NOT_FOUND => ErrorCode::ILLEGAL_GENERATION,
        code => code,
    }
}
