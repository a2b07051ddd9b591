//! OffsetCommit, v0–v10, for consumers that assign partitions themselves: group membership is not served.
//!
//! Version 0, which Kafka kept in ZooKeeper, lands in the same store as the others and asks for no coordinator.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::OffsetCommitRequest;
use samsarrow_wire::messages::offset_commit::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};

use super::{Call, Outcome, Serve};
use crate::state::groups::Committed;
use crate::sync::lock;

/// Whether the group may commit at all.
fn check_group(call: &Call<'_>, request: &OffsetCommitRequest) -> Result<(), ErrorCode> {
    if call.version >= 1 && !call.state.is_coordinator(call.node, &request.group_id) {
        return Err(ErrorCode::NOT_COORDINATOR);
    }
    // There are no members here: only a commit from outside of a generation can be right.
    if call.version >= 1 && request.generation_id_or_member_epoch >= 0 {
        let known = lock(&call.state.groups).knows(&request.group_id);
        return Err(if known { ErrorCode::UNKNOWN_MEMBER_ID } else { ErrorCode::ILLEGAL_GENERATION });
    }
    Ok(())
}

fn answered(
    topic: &OffsetCommitRequestTopic,
    code: impl Fn(&OffsetCommitRequestPartition) -> ErrorCode,
) -> OffsetCommitResponseTopic {
    let partition = |asked: &OffsetCommitRequestPartition| OffsetCommitResponsePartition {
        partition_index: asked.partition_index,
        error_code: code(asked).code(),
        ..OffsetCommitResponsePartition::default()
    };
    OffsetCommitResponseTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(partition).collect(),
        ..OffsetCommitResponseTopic::default()
    }
}

fn one(call: &Call<'_>, group: &str, asked: &OffsetCommitRequestTopic) -> OffsetCommitResponseTopic {
    let by_id = call.version >= 10;
    let topic = if by_id { call.state.topic_by_id(&asked.topic_id) } else { call.state.topic(&asked.name) };
    let Some(topic) = topic else {
        let code = if by_id { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
        return answered(asked, |_| code);
    };
    let mut groups = lock(&call.state.groups);
    let mut codes = Vec::with_capacity(asked.partitions.len());
    for partition in &asked.partitions {
        let metadata = partition.committed_metadata.clone().unwrap_or_default();
        codes.push(if topic.partition(partition.partition_index).is_none() {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        } else if metadata.len() > call.state.options.offset_metadata_max_bytes {
            ErrorCode::OFFSET_METADATA_TOO_LARGE
        } else {
            let committed = Committed {
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata,
            };
            groups.commit(group, &topic.name, topic.id.0, partition.partition_index, committed);
            ErrorCode::NONE
        });
    }
    drop(groups);
    let mut response = answered(asked, |_| ErrorCode::NONE);
    for (partition, code) in response.partitions.iter_mut().zip(codes) {
        partition.error_code = code.code();
    }
    response
}

impl Serve for OffsetCommitRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        if let Err(code) = check_group(call, &self) {
            return call.reply::<Self>(&self.refuse(call.version, code));
        }
        let topics = self.topics.iter().map(|topic| one(call, &self.group_id, topic)).collect();
        call.reply::<Self>(&OffsetCommitResponse { topics, ..OffsetCommitResponse::default() })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> OffsetCommitResponse {
        let topics = self.topics.iter().map(|topic| answered(topic, |_| code)).collect();
        OffsetCommitResponse { topics, ..OffsetCommitResponse::default() }
    }
}
