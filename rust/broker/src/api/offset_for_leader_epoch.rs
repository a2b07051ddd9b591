//! OffsetForLeaderEpoch, v0–v4.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::OffsetForLeaderEpochRequest;
use samsarrow_wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderPartition, OffsetForLeaderTopicResult,
};

use super::{Call, Outcome, Serve};
use crate::state::topic::Topic;

fn find(
    call: &Call<'_>,
    topic: Option<&Arc<Topic>>,
    asked: &OffsetForLeaderPartition,
) -> Result<(i32, i64), ErrorCode> {
    let partition = topic.and_then(|topic| topic.partition(asked.partition));
    let state = partition.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?.state();
    state.check_leader(call.node, asked.current_leader_epoch)?;
    // The end offset of a future epoch is unknown.
    let known = (0..=state.leader_epoch).contains(&asked.leader_epoch);
    Ok(if known { state.log.end_of_epoch(asked.leader_epoch) } else { (-1, -1) })
}

fn failed(asked: &OffsetForLeaderPartition, code: ErrorCode) -> EpochEndOffset {
    EpochEndOffset { partition: asked.partition, error_code: code.code(), ..Default::default() }
}

impl Serve for OffsetForLeaderEpochRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let topics = self.topics.iter().map(|asked| {
            let topic = call.state.topic(&asked.topic);
            let one = |asked: &OffsetForLeaderPartition| match find(call, topic.as_ref(), asked) {
                Ok((leader_epoch, end_offset)) => {
                    EpochEndOffset { partition: asked.partition, leader_epoch, end_offset, ..Default::default() }
                }
                Err(code) => failed(asked, code),
            };
            let partitions = asked.partitions.iter().map(one).collect();
            OffsetForLeaderTopicResult { topic: asked.topic.clone(), partitions, ..Default::default() }
        });
        call.reply::<Self>(&OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> OffsetForLeaderEpochResponse {
        let topics = self.topics.iter().map(|asked| OffsetForLeaderTopicResult {
            topic: asked.topic.clone(),
            partitions: asked.partitions.iter().map(|asked| failed(asked, code)).collect(),
            ..Default::default()
        });
        OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() }
    }
}
