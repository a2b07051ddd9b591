//! AlterPartitionReassignments, v0–v1. Replicas share one log, so a reassignment completes immediately.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::AlterPartitionReassignmentsRequest;
use samsarrow_wire::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsResponse, ReassignablePartition, ReassignablePartitionResponse,
    ReassignableTopicResponse,
};

use super::{Call, Handler, Outcome};
use crate::state::topic_creation::Rejection;

fn reassign(
    call: &Call<'_>,
    keep_replication_factor: bool,
    topic: &str,
    requested: &ReassignablePartition,
) -> Result<(), Rejection> {
    let current = call.state.topic(topic).and_then(|topic| topic.partition(requested.partition_index).cloned());
    let unknown = || (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.".to_owned());
    let current = current.ok_or_else(unknown)?;
    let Some(replicas) = &requested.replicas else {
        return Err((ErrorCode::NO_REASSIGNMENT_IN_PROGRESS, "No reassignment is in progress.".to_owned()));
    };
    call.state.check_replicas(std::slice::from_ref(replicas))?;
    if keep_replication_factor && current.state().replicas.len() != replicas.len() {
        let text = "The replication factor would change, which the request does not allow.".to_owned();
        return Err((ErrorCode::INVALID_REPLICATION_FACTOR, text));
    }
    current.state().replicas.clone_from(replicas);
    let up = |node: &i32| call.state.is_up(*node);
    let next = replicas.iter().copied().find(up);
    current.elect(|state| match next {
        Some(next) if !replicas.contains(&state.leader) => next,
        _ => state.leader,
    });
    Ok(())
}

fn response(
    request: &AlterPartitionReassignmentsRequest,
    reassign: impl Fn(&str, &ReassignablePartition) -> Result<(), Rejection>,
) -> AlterPartitionReassignmentsResponse {
    let topics = request.topics.iter().map(|topic| {
        let partition = |requested: &ReassignablePartition| {
            let (code, text) = reassign(&topic.name, requested).err().unwrap_or((ErrorCode::NONE, String::new()));
            ReassignablePartitionResponse {
                partition_index: requested.partition_index,
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

impl Handler for AlterPartitionReassignmentsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if call.node != call.state.controller() {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::NOT_CONTROLLER));
        }
        let keep_replication_factor = !self.allow_replication_factor_change;
        call.reply::<Self>(&response(&self, |topic, requested| {
            reassign(call, keep_replication_factor, topic, requested)
        }))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> AlterPartitionReassignmentsResponse {
        AlterPartitionReassignmentsResponse { error_code: code.code(), ..Default::default() }
    }
}
