//! TxnOffsetCommit, v0–v6: commits offsets as part of a transaction.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::TxnOffsetCommitRequest;
use samsarrow_wire::messages::txn_offset_commit::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
};
use samsarrow_wire::sync::lock;
use tokio::time::Instant;

use super::{Call, Handler, Outcome, transaction_error};
use crate::state::groups::offsets::Committed;
use crate::state::topic::Topic;
use crate::state::transactions::Now;
use crate::state::transactions::driver::offsets_partition;
use crate::state::transactions::transaction::Identity;

/// First version that adds the group to the transaction implicitly (KIP-890).
const FIRST_THAT_ADDS: i16 = 5;
/// First version with topic ids (KIP-1319).
const FIRST_WITH_TOPIC_IDS: i16 = 6;
/// First request version whose clients understand TRANSACTION_ABORTABLE.
const FIRST_WITH_ABORTABLE: i16 = 4;

/// Offset to commit for one partition, or the error that prevents the commit.
type OffsetResult = Result<(Arc<Topic>, Committed), ErrorCode>;

fn find(call: &Call<'_>, topic: &Arc<Topic>, requested: &TxnOffsetCommitRequestPartition) -> OffsetResult {
    topic.partition(requested.partition_index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let metadata = requested.committed_metadata.clone().unwrap_or_default();
    if metadata.len() > call.state.options.offset_metadata_max_bytes {
        return Err(ErrorCode::OFFSET_METADATA_TOO_LARGE);
    }
    let (offset, leader_epoch) = (requested.committed_offset, requested.committed_leader_epoch);
    Ok((topic.clone(), Committed { offset, leader_epoch, metadata }))
}

/// Stores the valid offsets as pending offsets of the transaction.
fn commit(
    call: &Call<'_>,
    request: &TxnOffsetCommitRequest,
    offsets: Vec<(i32, OffsetResult)>,
) -> Result<(), ErrorCode> {
    call.check_group(&request.group_id)?;
    let producer = Identity { id: request.producer_id, epoch: request.producer_epoch };
    let (id, topic_partition) = (request.transactional_id.as_str(), offsets_partition(&request.group_id));
    // The lock is held until this function returns, so that the transaction cannot end before its offsets are stored.
    let mut transactions = call.state.transactions();
    let in_transaction = if call.version >= FIRST_THAT_ADDS {
        transactions.add(Now::read(), id, producer, [topic_partition])
    } else {
        transactions.verify(id, producer, &topic_partition)
    };
    in_transaction.map_err(|code| match transaction_error(code, call.version >= FIRST_WITH_ABORTABLE) {
        // COORDINATOR_NOT_AVAILABLE makes older clients retry.
        ErrorCode::CONCURRENT_TRANSACTIONS if call.version < FIRST_THAT_ADDS => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        code => code,
    })?;
    let mut groups = lock(&call.state.groups);
    groups.check_transactional_commit(Instant::now(), call.version >= FIRST_WITH_TOPIC_IDS, request)?;
    for (partition, offset) in offsets {
        if let Ok((topic, committed)) = offset {
            let topic_partition = (&topic.name, topic.id.0, partition);
            groups.commit_in_transaction(&request.group_id, producer.id, topic_partition, committed);
        }
    }
    Ok(())
}

/// Builds the response. `codes` has one error code per requested partition, in the order of the request.
fn response(request: &TxnOffsetCommitRequest, codes: impl IntoIterator<Item = ErrorCode>) -> TxnOffsetCommitResponse {
    let mut codes = codes.into_iter();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let partition =
            |(requested, code): (&TxnOffsetCommitRequestPartition, ErrorCode)| TxnOffsetCommitResponsePartition {
                partition_index: requested.partition_index,
                error_code: code.code(),
                ..TxnOffsetCommitResponsePartition::default()
            };
        topics.push(TxnOffsetCommitResponseTopic {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: topic.partitions.iter().zip(codes.by_ref()).map(partition).collect(),
            ..TxnOffsetCommitResponseTopic::default()
        });
    }
    TxnOffsetCommitResponse { topics, ..TxnOffsetCommitResponse::default() }
}

impl Handler for TxnOffsetCommitRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let mut offsets = Vec::new();
        for topic in &self.topics {
            let known_topic = match call.version >= FIRST_WITH_TOPIC_IDS {
                true => call.state.topic_by_id(&topic.topic_id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID),
                false => call.state.topic(&topic.name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            };
            let find_one = |requested| find(call, known_topic.as_ref().map_err(|code| *code)?, requested);
            offsets.extend(topic.partitions.iter().map(|requested| (requested.partition_index, find_one(requested))));
        }
        let mut codes: Vec<ErrorCode> =
            offsets.iter().map(|(_, offset)| offset.as_ref().err().copied().unwrap_or(ErrorCode::NONE)).collect();
        // If no offset is valid, the transaction is left unchanged.
        if codes.contains(&ErrorCode::NONE)
            && let Err(code) = commit(call, &self, offsets)
        {
            codes
                .iter_mut()
                .filter(|partition_code| partition_code.is_none())
                .for_each(|partition_code| *partition_code = code);
        }
        call.state.transaction_began();
        // Wakes the group timer: the commit may have created a group, whose expiry may now be the earliest deadline.
        call.state.group_clock.notify_one();
        call.reply::<Self>(&response(&self, codes))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> TxnOffsetCommitResponse {
        response(self, std::iter::repeat(code))
    }
}
