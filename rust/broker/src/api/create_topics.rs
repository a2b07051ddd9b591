//! CreateTopics, v0–v7.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::CreateTopicsRequest;
use samsarrow_wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse,
};

use super::{Call, Outcome, Serve};
use crate::state::create::{NewTopic, Refusal};
use crate::state::topic::Topic;

/// Config source DYNAMIC_TOPIC_CONFIG: set on the topic.
const TOPIC_CONFIG: i8 = 1;

/// Returns the replica assignment of the request in order of partitions, which must be numbered 0, 1, 2, …
fn assignment(asked: &CreatableTopic) -> Result<Vec<Vec<i32>>, Refusal> {
    let mut given: Vec<_> = asked.assignments.iter().collect();
    given.sort_by_key(|assignment| assignment.partition_index);
    if (0..).zip(&given).any(|(index, assignment)| assignment.partition_index != index) {
        let message = "partitions assigned by hand must be numbered 0, 1, 2 and so on";
        return Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, message.to_owned()));
    }
    Ok(given.into_iter().map(|assignment| assignment.broker_ids.clone()).collect())
}

fn create(
    call: &Call<'_>,
    request: &CreateTopicsRequest,
    asked: &CreatableTopic,
) -> Result<CreatableTopicResult, Refusal> {
    if request.topics.iter().filter(|other| other.name == asked.name).count() > 1 {
        return Err((ErrorCode::INVALID_REQUEST, format!("topic '{}' is named twice in the request", asked.name)));
    }
    // Kafka before 2.4 has no broker defaults here: -1 is valid only together with an assignment.
    if asked.assignments.is_empty() && !call.profile().has_topic_defaults() {
        if asked.num_partitions < 1 {
            return Err((ErrorCode::INVALID_PARTITIONS, "Number of partitions must be larger than 0.".to_owned()));
        }
        if asked.replication_factor < 1 {
            let message = "Replication factor must be larger than 0.";
            return Err((ErrorCode::INVALID_REPLICATION_FACTOR, message.to_owned()));
        }
    }
    let topic = call.state.create_topic(&NewTopic {
        name: &asked.name,
        partitions: asked.num_partitions,
        replication_factor: asked.replication_factor,
        assignment: assignment(asked)?,
        configs: asked.configs.iter().map(|config| (config.name.as_str(), config.value.as_deref())).collect(),
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

fn failed(asked: &CreatableTopic, code: ErrorCode, message: Option<String>) -> CreatableTopicResult {
    CreatableTopicResult {
        name: asked.name.clone(),
        error_code: code.code(),
        error_message: message,
        ..CreatableTopicResult::default()
    }
}

impl Serve for CreateTopicsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let one = |asked: &CreatableTopic| match create(call, &self, asked) {
            Ok(created) => created,
            Err((code, message)) => failed(asked, code, Some(message)),
        };
        let topics = self.topics.iter().map(one).collect();
        call.reply::<Self>(&CreateTopicsResponse { topics, ..CreateTopicsResponse::default() })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> CreateTopicsResponse {
        let topics = self.topics.iter().map(|asked| failed(asked, code, None)).collect();
        CreateTopicsResponse { topics, ..CreateTopicsResponse::default() }
    }
}
