//! DeleteRecords, v0–v2: advances the log start offset of partitions.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DeleteRecordsRequest;
use samsarrow_wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopic,
    DeleteRecordsTopicResult,
};

use super::{Call, Outcome, Serve};

/// Sentinel for the high watermark.
const HIGH_WATERMARK: i64 = -1;

fn one(call: &Call<'_>, topic: &str, asked: &DeleteRecordsPartition) -> Result<i64, ErrorCode> {
    let found = call.state.topic(topic).and_then(|topic| topic.partition(asked.partition_index).cloned());
    let found = found.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let mut state = found.state();
    state.check_leader(call.node, -1)?;
    let offset = if asked.offset == HIGH_WATERMARK { state.log.next_offset() } else { asked.offset };
    if offset < 0 || offset > state.log.next_offset() {
        return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
    }
    Ok(state.log.delete_before(offset))
}

fn answered(
    asked: &[DeleteRecordsTopic],
    one: impl Fn(&str, &DeleteRecordsPartition) -> Result<i64, ErrorCode>,
) -> DeleteRecordsResponse {
    let topic = |topic: &DeleteRecordsTopic| {
        let partition = |asked: &DeleteRecordsPartition| {
            let (low_watermark, code) = match one(&topic.name, asked) {
                Ok(low) => (low, ErrorCode::NONE),
                Err(code) => (-1, code),
            };
            DeleteRecordsPartitionResult {
                partition_index: asked.partition_index,
                low_watermark,
                error_code: code.code(),
                ..DeleteRecordsPartitionResult::default()
            }
        };
        DeleteRecordsTopicResult {
            name: topic.name.clone(),
            partitions: topic.partitions.iter().map(partition).collect(),
            ..DeleteRecordsTopicResult::default()
        }
    };
    DeleteRecordsResponse { topics: asked.iter().map(topic).collect(), ..DeleteRecordsResponse::default() }
}

impl Serve for DeleteRecordsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&answered(&self.topics, |topic, asked| one(call, topic, asked)))
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> DeleteRecordsResponse {
        answered(&self.topics, |_, _| Err(code))
    }
}
