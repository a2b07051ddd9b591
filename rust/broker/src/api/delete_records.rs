//! DeleteRecords, v0–v2: advances the log start offset of partitions.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DeleteRecordsRequest;
use samsarrow_wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopic,
    DeleteRecordsTopicResult,
};

use super::{Call, Handler, Outcome};

/// Requested offset that stands for the high watermark.
const HIGH_WATERMARK: i64 = -1;

fn delete(call: &Call<'_>, topic: &str, requested: &DeleteRecordsPartition) -> Result<i64, ErrorCode> {
    let current = call.state.topic(topic).and_then(|topic| topic.partition(requested.partition_index).cloned());
    let current = current.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let mut state = current.state();
    state.check_leader(call.node, -1)?;
    let offset = if requested.offset == HIGH_WATERMARK { state.log.next_offset() } else { requested.offset };
    if offset < 0 || offset > state.log.next_offset() {
        return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
    }
    Ok(state.log.delete_before(offset))
}

fn response(
    requested: &[DeleteRecordsTopic],
    delete: impl Fn(&str, &DeleteRecordsPartition) -> Result<i64, ErrorCode>,
) -> DeleteRecordsResponse {
    let topic = |topic: &DeleteRecordsTopic| {
        let partition = |requested: &DeleteRecordsPartition| {
            let (low_watermark, code) = match delete(&topic.name, requested) {
                Ok(low) => (low, ErrorCode::NONE),
                Err(code) => (-1, code),
            };
            DeleteRecordsPartitionResult {
                partition_index: requested.partition_index,
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
    DeleteRecordsResponse { topics: requested.iter().map(topic).collect(), ..DeleteRecordsResponse::default() }
}

impl Handler for DeleteRecordsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&response(&self.topics, |topic, requested| delete(call, topic, requested)))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DeleteRecordsResponse {
        response(&self.topics, |_, _| Err(code))
    }
}
