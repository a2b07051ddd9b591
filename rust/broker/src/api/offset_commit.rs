//! OffsetCommit, v0–v10, for group members and for consumers that assign partitions manually.
//!
//! Version 0 stored offsets in ZooKeeper. Its offsets are therefore separate from those of later versions, and every
//! node accepts them.

use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::OffsetCommitRequest;
use samsarrow_wire::messages::offset_commit::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};
use samsarrow_wire::sync::lock;
use tokio::time::Instant;

use super::{Call, Handler, Outcome};
#[cfg(feature = "simulation")]
use crate::history::{Event, record as record_event};
use crate::state::groups::offsets::Committed;

/// Checks that this node coordinates the group and that the group accepts commits of this sender.
fn check_group(call: &Call<'_>, request: &OffsetCommitRequest) -> Result<(), ErrorCode> {
    if call.version >= 1 && !call.state.is_coordinator(call.node, &request.group_id) {
        return Err(ErrorCode::NOT_COORDINATOR);
    }
    if call.version == 0 {
        return Ok(());
    }
    lock(&call.state.groups).check_commit(Instant::now(), call.version, request)
}

fn topic_response(
    topic: &OffsetCommitRequestTopic,
    code: impl Fn(&OffsetCommitRequestPartition) -> ErrorCode,
) -> OffsetCommitResponseTopic {
    let partition = |requested: &OffsetCommitRequestPartition| OffsetCommitResponsePartition {
        partition_index: requested.partition_index,
        error_code: code(requested).code(),
        ..OffsetCommitResponsePartition::default()
    };
    OffsetCommitResponseTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(partition).collect(),
        ..OffsetCommitResponseTopic::default()
    }
}

fn commit(
    call: &Call<'_>,
    request: &OffsetCommitRequest,
    requested: &OffsetCommitRequestTopic,
) -> OffsetCommitResponseTopic {
    // -1 requests the broker's retention.
    let keep = u64::try_from(request.retention_time_ms).ok().map(Duration::from_millis);
    let by_id = call.version >= 10;
    let topic = if by_id { call.state.topic_by_id(&requested.topic_id) } else { call.state.topic(&requested.name) };
    let Some(topic) = topic else {
        let code = if by_id { ErrorCode::UNKNOWN_TOPIC_ID } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
        return topic_response(requested, |_| code);
    };
    let mut groups = lock(&call.state.groups);
    let mut codes = Vec::with_capacity(requested.partitions.len());
    for partition in &requested.partitions {
        let metadata = partition.committed_metadata.clone().unwrap_or_default();
        codes.push(if topic.partition(partition.partition_index).is_none() {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        } else if metadata.len() > call.state.options.offset_metadata_max_bytes {
            ErrorCode::OFFSET_METADATA_TOO_LARGE
        } else if call.version == 0 {
            let key = (request.group_id.clone(), topic.name.clone(), partition.partition_index);
            lock(&call.state.zookeeper).insert(key, partition.committed_offset);
            ErrorCode::NONE
        } else {
            let committed = Committed {
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata,
            };
            let key = (&topic.name, topic.id.0, partition.partition_index);
            record(call, &request.group_id, &topic.name, key.2, committed.offset);
            groups.commit(&request.group_id, key, committed, keep);
            ErrorCode::NONE
        });
    }
    drop(groups);
    let mut response = topic_response(requested, |_| ErrorCode::NONE);
    for (partition, code) in response.partitions.iter_mut().zip(codes) {
        partition.error_code = code.code();
    }
    response
}

/// Records an offset that a request commits, for simulations.
#[inline]
fn record(call: &Call<'_>, group: &str, topic: &str, partition: i32, offset: i64) {
    #[cfg(feature = "simulation")]
    record_event(Event::Committed {
        group: group.to_owned(),
        topic: topic.to_owned(),
        partition,
        offset,
        node: call.node,
        received_at: call.received.at,
        applied_at: tokio::time::Instant::now(),
        abandoned: call.stream.tcp().is_abandoned(),
    });
    #[cfg(not(feature = "simulation"))]
    let _ = (call.received, group, topic, partition, offset);
}

impl Handler for OffsetCommitRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if let Err(code) = check_group(call, &self) {
            return call.reply::<Self>(&self.error_response(call.version, code));
        }
        let topics = self.topics.iter().map(|topic| commit(call, &self, topic)).collect();
        // Wakes the group timer: the commit may have created a group, whose expiry may now be the earliest deadline.
        call.state.group_clock.notify_one();
        call.reply::<Self>(&OffsetCommitResponse { topics, ..OffsetCommitResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> OffsetCommitResponse {
        let topics = self.topics.iter().map(|topic| topic_response(topic, |_| code)).collect();
        OffsetCommitResponse { topics, ..OffsetCommitResponse::default() }
    }
}
