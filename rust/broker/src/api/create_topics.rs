//! CreateTopics, v0–v7.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::CreateTopicsRequest;
use samsarrow_wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse,
};

use super::{Call, Handler, Outcome};
use crate::state::topic::Topic;
use crate::state::topic_creation::{NewTopic, Rejection};

/// Config source DYNAMIC_TOPIC_CONFIG: the config was set on the topic.
const TOPIC_CONFIG: i8 = 1;

/// Returns the manual replica assignment of the request, ordered by partition index. Fails unless the indexes are 0, 1,
/// 2 and so on.
fn assignment(requested: &CreatableTopic) -> Result<Vec<Vec<i32>>, Rejection> {
    let mut assignments: Vec<_> = requested.assignments.iter().collect();
    assignments.sort_by_key(|assignment| assignment.partition_index);
    if (0..).zip(&assignments).any(|(index, assignment)| assignment.partition_index != index) {
        let message = "partitions assigned by hand must be numbered 0, 1, 2 and so on";
        return Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, message.to_owned()));
    }
    Ok(assignments.into_iter().map(|assignment| assignment.broker_ids.clone()).collect())
}

fn create(
    call: &Call<'_>,
    request: &CreateTopicsRequest,
    requested: &CreatableTopic,
) -> Result<CreatableTopicResult, Rejection> {
    if request.topics.iter().filter(|other| other.name == requested.name).count() > 1 {
        return Err((ErrorCode::INVALID_REQUEST, format!("topic '{}' is named twice in the request", requested.name)));
    }
    // Kafka releases before 2.4 do not use broker defaults for -1, so there -1 is valid only together with an
    // assignment (KIP-464).
    if requested.assignments.is_empty() && !call.profile().has_topic_defaults() {
        if requested.num_partitions < 1 {
            return Err((ErrorCode::INVALID_PARTITIONS, "Number of partitions must be larger than 0.".to_owned()));
        }
        if requested.replication_factor < 1 {
            let message = "Replication factor must be larger than 0.";
            return Err((ErrorCode::INVALID_REPLICATION_FACTOR, message.to_owned()));
        }
    }
    let topic = call.state.create_topic(&NewTopic {
        name: &requested.name,
        partitions: requested.num_partitions,
        replication_factor: requested.replication_factor,
        assignment: assignment(requested)?,
        configs: requested.configs.iter().map(|config| (config.name.as_str(), config.value.as_deref())).collect(),
        validate_only: request.validate_only,
    })?;
    Ok(created(&topic, request.validate_only))
}

fn created(topic: &Topic, validate_only: bool) -> CreatableTopicResult {
    let config = |(name, value): (&String, &String)| CreatableTopicConfigs {
        name: name.clone(),
        value: Some(value.clone()),
        config_source: TOPIC_CONFIG,
        ..CreatableTopicConfigs::default()
    };
    CreatableTopicResult {
        name: topic.name.to_string(),
        topic_id: if validate_only { Default::default() } else { topic.id },
        num_partitions: i32::try_from(topic.len()).unwrap_or(i32::MAX),
        replication_factor: topic.replication_factor,
        configs: Some(topic.config.given.iter().map(config).collect()),
        ..CreatableTopicResult::default()
    }
}

fn failed(requested: &CreatableTopic, code: ErrorCode, message: Option<String>) -> CreatableTopicResult {
    CreatableTopicResult {
        name: requested.name.clone(),
        error_code: code.code(),
        error_message: message,
        ..CreatableTopicResult::default()
    }
}

impl Handler for CreateTopicsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let create_one = |requested: &CreatableTopic| match create(call, &self, requested) {
            Ok(created) => created,
            Err((code, message)) => failed(requested, code, Some(message)),
        };
        let topics = self.topics.iter().map(create_one).collect();
        call.reply::<Self>(&CreateTopicsResponse { topics, ..CreateTopicsResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> CreateTopicsResponse {
        let topics = self.topics.iter().map(|requested| failed(requested, code, None)).collect();
        CreateTopicsResponse { topics, ..CreateTopicsResponse::default() }
    }
}
