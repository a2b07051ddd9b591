//! AlterPartitionReassignments, v0–v1. Replicas share one log, so a reassignment completes immediately.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::AlterPartitionReassignmentsRequest;
use samsarrow_wire::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsResponse, ReassignablePartition, ReassignablePartitionResponse,
    ReassignableTopicResponse,
};

use super::{Call, Outcome, Serve};
use crate::state::create::Refusal;

fn one(call: &Call<'_>, keep: bool, topic: &str, asked: &ReassignablePartition) -> Result<(), Refusal> {
    let found = call.state.topic(topic).and_then(|topic| topic.partition(asked.partition_index).cloned());
    let unknown = || (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.".to_owned());
    let found = found.ok_or_else(unknown)?;
    let Some(replicas) = &asked.replicas else {
        return Err((ErrorCode::NO_REASSIGNMENT_IN_PROGRESS, "No reassignment is in progress.".to_owned()));
    };
    call.state.check_replicas(std::slice::from_ref(replicas))?;
    if keep && found.state().replicas.len() != replicas.len() {
        let text = "The replication factor would change, which the request does not allow.".to_owned();
        return Err((ErrorCode::INVALID_REPLICATION_FACTOR, text));
    }
    found.state().replicas.clone_from(replicas);
    let up = |node: &i32| call.state.is_up(*node);
    let next = replicas.iter().copied().find(up);
    found.elect(|state| match next {
        Some(next) if !replicas.contains(&state.leader) => next,
        _ => state.leader,
    });
    Ok(())
}

fn answered(
    request: &AlterPartitionReassignmentsRequest,
    one: impl Fn(&str, &ReassignablePartition) -> Result<(), Refusal>,
) -> AlterPartitionReassignmentsResponse {
    let topics = request.topics.iter().map(|topic| {
        let partition = |asked: &ReassignablePartition| {
            let (code, text) = one(&topic.name, asked).err().unwrap_or((ErrorCode::NONE, String::new()));
            ReassignablePartitionResponse {
                partition_index: asked.partition_index,
                error_code: code.code(),
                error_message: Some(text).filter(|text| !text.is_empty()),
                ..Default::default()
            }
        };
        let partitions = topic.partitions.iter().map(partition).collect();
        ReassignableTopicResponse { name: topic.name.clone(), partitions, ..Default::default() }
    });
    AlterPartitionReassignmentsResponse { responses: topics.collect(), ..Default::default() }
}

impl Serve for AlterPartitionReassignmentsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        if call.node != call.state.controller() {
            return call.reply::<Self>(&self.refuse(call.version, ErrorCode::NOT_CONTROLLER));
        }
        let keep = !self.allow_replication_factor_change;
        call.reply::<Self>(&answered(&self, |topic, asked| one(call, keep, topic, asked)))
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> AlterPartitionReassignmentsResponse {
        AlterPartitionReassignmentsResponse { error_code: code.code(), ..Default::default() }
    }
}
