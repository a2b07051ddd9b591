//! DeleteTopics, v0–v6.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DeleteTopicsRequest;
use samsarrow_wire::messages::delete_topics::{DeletableTopicResult, DeleteTopicState, DeleteTopicsResponse};

use super::{Call, Handler, Outcome};

const FIRST_WITH_IDS: i16 = 6;

/// Returns the topics to delete. Before v6 a request lists only topic names, in a separate field.
fn requested(request: &DeleteTopicsRequest, version: i16) -> Vec<DeleteTopicState> {
    if version >= FIRST_WITH_IDS {
        return request.topics.clone();
    }
    let by_name = |name: &String| DeleteTopicState { name: Some(name.clone()), ..DeleteTopicState::default() };
    request.topic_names.iter().map(by_name).collect()
}

fn topic_result(requested: &DeleteTopicState, code: ErrorCode) -> DeletableTopicResult {
    DeletableTopicResult {
        name: requested.name.clone(),
        topic_id: requested.topic_id,
        error_code: code.code(),
        ..DeletableTopicResult::default()
    }
}

fn delete(call: &Call<'_>, requested: &DeleteTopicState) -> DeletableTopicResult {
    let topic = match &requested.name {
        Some(name) => call.state.topic(name).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        None => call.state.topic_by_id(&requested.topic_id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID),
    };
    match topic {
        Ok(topic) => {
            call.state.delete_topic(&topic);
            DeletableTopicResult {
                name: Some(topic.name.to_string()),
                topic_id: topic.id,
                ..DeletableTopicResult::default()
            }
        }
        Err(code) => topic_result(requested, code),
    }
}

impl Handler for DeleteTopicsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let responses = requested(&self, call.version).iter().map(|topic| delete(call, topic)).collect();
        call.reply::<Self>(&DeleteTopicsResponse { responses, ..DeleteTopicsResponse::default() })
    }

    fn error_response(&self, version: i16, code: ErrorCode) -> DeleteTopicsResponse {
        let responses = requested(self, version).iter().map(|topic| topic_result(topic, code)).collect();
        DeleteTopicsResponse { responses, ..DeleteTopicsResponse::default() }
    }
}
