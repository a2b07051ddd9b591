//! DeleteShareGroupOffsets, v0: deletes the start offsets of topics in a share group without members.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DeleteShareGroupOffsetsRequest;
use samsarrow_wire::messages::delete_share_group_offsets::{
    DeleteShareGroupOffsetsRequestTopic, DeleteShareGroupOffsetsResponse, DeleteShareGroupOffsetsResponseTopic,
};

use super::share_requests::check_offsets;
use super::{Call, Handler, Outcome};

impl Handler for DeleteShareGroupOffsetsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if let Err((code, message)) = check_offsets(call, &self.group_id, false) {
            return call.reply::<Self>(&DeleteShareGroupOffsetsResponse {
                error_message: Some(message),
                ..self.error_response(call.version, code)
            });
        }
        let delete = |requested: &DeleteShareGroupOffsetsRequestTopic| {
            let topic = call.state.topic(&requested.topic_name);
            let code = match &topic {
                None => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                Some(topic) => {
                    call.state.delete_share_offsets(&self.group_id, topic.id.0);
                    ErrorCode::NONE
                }
            };
            DeleteShareGroupOffsetsResponseTopic {
                topic_name: requested.topic_name.clone(),
                topic_id: topic.map(|topic| topic.id).unwrap_or_default(),
                error_code: code.code(),
                error_message: (!code.is_none()).then(|| code.description().to_owned()),
                ..DeleteShareGroupOffsetsResponseTopic::default()
            }
        };
        let responses = self.topics.iter().map(delete).collect();
        call.reply::<Self>(&DeleteShareGroupOffsetsResponse { responses, ..DeleteShareGroupOffsetsResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DeleteShareGroupOffsetsResponse {
        DeleteShareGroupOffsetsResponse { error_code: code.code(), ..DeleteShareGroupOffsetsResponse::default() }
    }
}
