//! OffsetForLeaderEpoch, v0–v4.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::OffsetForLeaderEpochRequest;
use samsarrow_wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderPartition, OffsetForLeaderTopicResult,
};

use super::{Call, Handler, Outcome};
use crate::state::topic::Topic;

fn find(
    call: &Call<'_>,
    topic: Option<&Arc<Topic>>,
    requested: &OffsetForLeaderPartition,
) -> Result<(i32, i64), ErrorCode> {
    let partition = topic.and_then(|topic| topic.partition(requested.partition));
    let state = partition.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?.state();
    state.check_leader(call.node, requested.current_leader_epoch)?;
    // An epoch after the current leader epoch has no end offset yet.
    let known = (0..=state.leader_epoch).contains(&requested.leader_epoch);
    Ok(if known { state.log.end_of_epoch(requested.leader_epoch) } else { (-1, -1) })
}

fn failed(requested: &OffsetForLeaderPartition, code: ErrorCode) -> EpochEndOffset {
    EpochEndOffset { partition: requested.partition, error_code: code.code(), ..Default::default() }
}

impl Handler for OffsetForLeaderEpochRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let topics = self.topics.iter().map(|requested| {
            let topic = call.state.topic(&requested.topic);
            let response_of = |requested: &OffsetForLeaderPartition| match find(call, topic.as_ref(), requested) {
                Ok((leader_epoch, end_offset)) => {
                    EpochEndOffset { partition: requested.partition, leader_epoch, end_offset, ..Default::default() }
                }
                Err(code) => failed(requested, code),
            };
            let partitions = requested.partitions.iter().map(response_of).collect();
            OffsetForLeaderTopicResult { topic: requested.topic.clone(), partitions, ..Default::default() }
        });
        call.reply::<Self>(&OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> OffsetForLeaderEpochResponse {
        let topics = self.topics.iter().map(|requested| OffsetForLeaderTopicResult {
            topic: requested.topic.clone(),
            partitions: requested.partitions.iter().map(|requested| failed(requested, code)).collect(),
            ..Default::default()
        });
        OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() }
    }
}
