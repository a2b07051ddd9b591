//! AlterShareGroupOffsets, v0: sets the start offsets of a share group without members.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::AlterShareGroupOffsetsRequest;
use samsarrow_wire::messages::alter_share_group_offsets::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsResponse, AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
};

use super::share_requests::check_offsets;
use super::{Call, Handler, Outcome};

impl Handler for AlterShareGroupOffsetsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if let Err((code, message)) = check_offsets(call, &self.group_id, true) {
            return call.reply::<Self>(&AlterShareGroupOffsetsResponse {
                error_message: Some(message),
                ..self.error_response(call.version, code)
            });
        }
        let responses = self.topics.iter().map(|requested| {
            let topic = call.state.topic(&requested.topic_name);
            let set = |partition: i32, start: i64| {
                let topic = topic.as_ref().ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
                call.state.set_share_offset(&self.group_id, (topic.id.0, partition), start)
            };
            let partition = |partition: &AlterShareGroupOffsetsRequestPartition| {
                let code = set(partition.partition_index, partition.start_offset).err();
                AlterShareGroupOffsetsResponsePartition {
                    partition_index: partition.partition_index,
                    error_code: code.unwrap_or(ErrorCode::NONE).code(),
                    error_message: code.map(|code| code.description().to_owned()),
                    ..AlterShareGroupOffsetsResponsePartition::default()
                }
            };
            AlterShareGroupOffsetsResponseTopic {
                topic_name: requested.topic_name.clone(),
                topic_id: topic.as_ref().map(|topic| topic.id).unwrap_or_default(),
                partitions: requested.partitions.iter().map(partition).collect(),
                ..AlterShareGroupOffsetsResponseTopic::default()
            }
        });
        let responses = responses.collect();
        call.reply::<Self>(&AlterShareGroupOffsetsResponse { responses, ..AlterShareGroupOffsetsResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> AlterShareGroupOffsetsResponse {
        AlterShareGroupOffsetsResponse { error_code: code.code(), ..AlterShareGroupOffsetsResponse::default() }
    }
}
