//! Topics: create, delete and list topics, add partitions, and delete records.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::create_partitions::{CreatePartitionsAssignment, CreatePartitionsTopic};
use samsarrow_wire::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreatableTopicResult,
};
use samsarrow_wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use samsarrow_wire::messages::delete_topics::DeleteTopicState;
use samsarrow_wire::messages::metadata::MetadataRequestTopic;
use samsarrow_wire::messages::{
    ApiKey, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteRecordsRequest, DeleteRecordsResponse, DeleteTopicsRequest, DeleteTopicsResponse, MetadataRequest,
    MetadataResponse, Uuid,
};

use super::Admin;
use super::batch::{BatchedRequest, Route};
use super::engine::RequestBatch;
use super::response_errors::check;
use crate::error::{Error, Result};
use crate::offsets::by_topic;
use crate::types::TopicPartition;

/// First version of CreateTopics with the broker's defaults for partitions and replicas (KIP-464).
const CREATE_DEFAULTS: i16 = 4;
/// First version of DeleteTopics with structs of names or ids (KIP-516).
const DELETE_STRUCTS: i16 = 6;

/// Topic to create.
#[derive(Debug, Clone, Default)]
pub struct NewTopic {
    /// Topic name.
    pub name: String,
    /// Number of partitions; −1 for the broker's default.
    pub num_partitions: i32,
    /// Replication factor; −1 for the broker's default.
    pub replication_factor: i16,
    /// Replicas of each partition; if set, both numbers are −1.
    pub assignment: Vec<Vec<i32>>,
    /// Topic configs.
    pub configs: Vec<(String, String)>,
}

/// Result of a topic creation or its validation. Brokers before 2.4 do not report the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Topic id, zero if brokers do not report ids.
    pub topic_id: Uuid,
    /// Number of partitions, −1 if the broker does not report it.
    pub num_partitions: i32,
    /// Replication factor, −1 if the broker does not report it.
    pub replication_factor: i16,
}

/// Reference to a topic, by name or id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicRef {
    /// By name.
    Name(String),
    /// By id, which is never reused (KIP-516).
    Id([u8; 16]),
}

impl From<&str> for TopicRef {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl fmt::Display for TopicRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "topic {name}"),
            Self::Id(id) => write!(f, "topic id {:032x}", u128::from_be_bytes(*id)),
        }
    }
}

/// New number of partitions of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPartitions {
    /// Total number, including the existing ones.
    pub count: i32,
    /// Replicas of each new partition; `None` for assignment by the controller.
    pub assignment: Option<Vec<Vec<i32>>>,
}

/// Listed topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicListing {
    /// Topic name.
    pub name: String,
    /// Topic id, zero if brokers do not report ids.
    pub topic_id: Uuid,
    /// Number of partitions.
    pub partitions: usize,
    /// True for Kafka's internal topics.
    pub internal: bool,
}

/// Result per topic, in the order of the request.
pub type PerTopic<T> = Vec<(String, Result<T>)>;

fn controller_request(timeout: Duration) -> BatchedRequest<String> {
    BatchedRequest { describe: |name| format!("topic {name}"), ..BatchedRequest::new(Route::Controller, timeout) }
}

impl Admin {
    /// Creates topics, or only validates the requests; each topic has its own result.
    ///
    /// # Errors
    /// A duplicate name; a timeout with its cause if no controller responded.
    pub async fn create_topics(
        &self,
        new: &[NewTopic],
        validate_only: bool,
        timeout: Duration,
    ) -> Result<PerTopic<CreatedTopic>> {
        let key = ApiKey::CreateTopics;
        let mut by_name: BTreeMap<String, &NewTopic> = BTreeMap::new();
        for topic in new {
            if by_name.insert(topic.name.clone(), topic).is_some() {
                return Err(Error::configuration(format!("topic {} is to be created twice", topic.name)));
            }
        }
        let names: Vec<String> = new.iter().map(|topic| topic.name.clone()).collect();
        let build = |batch: &RequestBatch<'_, String>| {
            let topics = batch.items.iter().filter_map(|name| by_name.get(name)).map(|topic| {
                let defaults = topic.num_partitions < 0 || topic.replication_factor < 0;
                if batch.version < CREATE_DEFAULTS && defaults && topic.assignment.is_empty() {
                    return Err(Error::UnsupportedVersion(format!(
                        "topic {}: the broker's own number of partitions and replicas (-1) needs Kafka 2.4 or later, and \
                         this broker is older (CreateTopics v{}): give both numbers",
                        topic.name, batch.version
                    )));
                }
                Ok(creatable(topic))
            });
            let topics = topics.collect::<Result<_>>()?;
            Ok(CreateTopicsRequest { topics, timeout_ms: batch.timeout_ms, validate_only, ..Default::default() })
        };
        let read = |_: &RequestBatch<'_, String>, response: CreateTopicsResponse| {
            let read_topic = |t: CreatableTopicResult| {
                let context = format!("{} of topic {}", key.name(), t.name);
                let created = check(t.error_code, t.error_message.as_deref(), &context, key).map(|()| CreatedTopic {
                    topic_id: t.topic_id,
                    num_partitions: t.num_partitions,
                    replication_factor: t.replication_factor,
                });
                (t.name, created)
            };
            Ok(response.topics.into_iter().map(read_topic).collect())
        };
        self.send_batched(&controller_request(timeout), &names, build, read).await
    }

    /// Deletes topics; each has its own result.
    ///
    /// # Errors
    /// A timeout with its cause if no controller responded.
    pub async fn delete_topics(&self, topics: &[TopicRef], timeout: Duration) -> Result<Vec<(TopicRef, Result<()>)>> {
        let key = ApiKey::DeleteTopics;
        let build = |batch: &RequestBatch<'_, TopicRef>| {
            let mut request = DeleteTopicsRequest { timeout_ms: batch.timeout_ms, ..Default::default() };
            for topic in batch.items {
                match topic {
                    TopicRef::Name(name) if batch.version < DELETE_STRUCTS => request.topic_names.push(name.clone()),
                    TopicRef::Name(name) => {
                        request.topics.push(DeleteTopicState { name: Some(name.clone()), ..Default::default() });
                    }
                    TopicRef::Id(_) if batch.version < DELETE_STRUCTS => {
                        return Err(Error::UnsupportedVersion(format!(
                            "{topic}: to delete by id needs Kafka 2.8 or later, and this broker is older (DeleteTopics \
                             v{}): name the topic",
                            batch.version
                        )));
                    }
                    TopicRef::Id(id) => {
                        request.topics.push(DeleteTopicState { topic_id: Uuid(*id), ..Default::default() });
                    }
                }
            }
            Ok(request)
        };
        let read = |batch: &RequestBatch<'_, TopicRef>, response: DeleteTopicsResponse| {
            let mut results = Vec::new();
            for t in response.responses {
                // Responses to ids contain the name too, if the topic existed.
                let id = TopicRef::Id(t.topic_id.0);
                let topic = match t.name {
                    Some(name) if !batch.items.contains(&id) => TopicRef::Name(name),
                    _ => id,
                };
                let context = format!("{} of {topic}", key.name());
                results.push((topic, check(t.error_code, t.error_message.as_deref(), &context, key)));
            }
            Ok(results)
        };
        self.send_batched(&BatchedRequest::new(Route::Controller, timeout), topics, build, read).await
    }

    /// Adds partitions to topics, or only validates the requests; each topic has its own result.
    ///
    /// # Errors
    /// A timeout with its cause if no controller responded.
    pub async fn create_partitions(
        &self,
        new: &BTreeMap<String, NewPartitions>,
        validate_only: bool,
        timeout: Duration,
    ) -> Result<PerTopic<()>> {
        let key = ApiKey::CreatePartitions;
        let names: Vec<String> = new.keys().cloned().collect();
        let build = |batch: &RequestBatch<'_, String>| {
            let replicas = |broker_ids: &Vec<i32>| CreatePartitionsAssignment {
                broker_ids: broker_ids.clone(),
                ..Default::default()
            };
            let topic = |(name, new): (&String, &NewPartitions)| CreatePartitionsTopic {
                name: name.clone(),
                count: new.count,
                assignments: new.assignment.as_ref().map(|all| all.iter().map(replicas).collect()),
                ..Default::default()
            };
            let topics = batch.items.iter().filter_map(|name| new.get_key_value(name)).map(topic).collect();
            Ok(CreatePartitionsRequest { topics, timeout_ms: batch.timeout_ms, validate_only, ..Default::default() })
        };
        let read = |_: &RequestBatch<'_, String>, response: CreatePartitionsResponse| {
            let read_topic = |t: samsarrow_wire::messages::create_partitions::CreatePartitionsTopicResult| {
                let context = format!("{} of topic {}", key.name(), t.name);
                let result = check(t.error_code, t.error_message.as_deref(), &context, key);
                (t.name, result)
            };
            Ok(response.results.into_iter().map(read_topic).collect())
        };
        self.send_batched(&controller_request(timeout), &names, build, read).await
    }

    /// Deletes the records before an offset of each partition; −1 for the high watermark. Returns the new low
    /// watermarks.
    ///
    /// # Errors
    /// Errors that do not concern a single partition; a timeout with its cause if no leader responded.
    pub async fn delete_records(
        &self,
        before: &BTreeMap<TopicPartition, i64>,
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Result<i64>)>> {
        let key = ApiKey::DeleteRecords;
        if let Some((tp, offset)) = before.iter().find(|(_, offset)| **offset < -1) {
            return Err(Error::configuration(format!(
                "cannot delete the records of {tp} before offset {offset}: offsets start at 0, and -1 is the end"
            )));
        }
        let partitions: Vec<TopicPartition> = before.keys().cloned().collect();
        let build = |batch: &RequestBatch<'_, TopicPartition>| {
            let partition =
                |(partition_index, offset)| DeleteRecordsPartition { partition_index, offset, ..Default::default() };
            let offsets = batch.items.iter().filter_map(|tp| Some((tp.clone(), *before.get(tp)?)));
            let topics = by_topic(offsets).into_iter().map(|(name, partitions)| DeleteRecordsTopic {
                name: name.to_string(),
                partitions: partitions.into_iter().map(partition).collect(),
                ..Default::default()
            });
            Ok(DeleteRecordsRequest { topics: topics.collect(), timeout_ms: batch.timeout_ms, ..Default::default() })
        };
        let read = |_: &RequestBatch<'_, TopicPartition>, response: DeleteRecordsResponse| {
            let mut results = Vec::new();
            for topic in response.topics {
                for p in topic.partitions {
                    let tp = TopicPartition::new(&*topic.name, p.partition_index);
                    let outcome = check(p.error_code, None, &format!("{} of {tp}", key.name()), key);
                    results.push((tp, outcome.map(|()| p.low_watermark)));
                }
            }
            Ok(results)
        };
        self.send_batched(&BatchedRequest::new(Route::Leader(|tp| tp), timeout), &partitions, build, read).await
    }

    /// Lists all topics, or the existing ones of `names`, sorted by name.
    ///
    /// # Errors
    /// No broker responds within `timeout`, or brokers reject one of the names.
    pub async fn list_topics(&self, names: Option<&[String]>, timeout: Duration) -> Result<Vec<TopicListing>> {
        self.find_topics(names, timeout).await?.into_iter().map(|(_, topic)| topic).collect()
    }

    /// Lists all topics, or the existing ones of `names`, sorted by name, with an error for each name that brokers reject.
    ///
    /// # Errors
    /// No broker responds within `timeout`.
    pub async fn find_topics(
        &self,
        names: Option<&[String]>,
        timeout: Duration,
    ) -> Result<Vec<(String, Result<TopicListing>)>> {
        if names.is_some_and(<[String]>::is_empty) {
            return Ok(Vec::new());
        }
        let build = |batch: &RequestBatch<'_, ()>| Ok(metadata_request(batch.version, names));
        self.send_single(Route::Any, timeout, build, listings).await
    }
}

/// Returns a request for topics by name, or for all.
pub(super) fn metadata_request(version: i16, names: Option<&[String]>) -> MetadataRequest {
    let named = |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
    // A null list requests all topics; version 0 uses an empty one.
    let all = if version == 0 { Some(Vec::new()) } else { None };
    let topics = names.map_or(all, |names| Some(names.iter().map(named).collect()));
    MetadataRequest { topics, allow_auto_topic_creation: version < 4, ..Default::default() }
}

fn creatable(topic: &NewTopic) -> CreatableTopic {
    let config = |(name, value): &(String, String)| CreatableTopicConfig {
        name: name.clone(),
        value: Some(value.clone()),
        ..Default::default()
    };
    let assignment = |(partition_index, broker_ids): (i32, &Vec<i32>)| CreatableReplicaAssignment {
        partition_index,
        broker_ids: broker_ids.clone(),
        ..Default::default()
    };
    CreatableTopic {
        name: topic.name.clone(),
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: (0..).zip(&topic.assignment).map(assignment).collect(),
        configs: topic.configs.iter().map(config).collect(),
        ..Default::default()
    }
}

/// Returns the topics of a response, with an error for each name that brokers reject; missing ones are omitted.
fn listings(response: MetadataResponse) -> Result<Vec<(String, Result<TopicListing>)>> {
    let mut topics = Vec::with_capacity(response.topics.len());
    for topic in response.topics {
        let (name, code) = (topic.name.unwrap_or_default(), ErrorCode::from_i16(topic.error_code));
        // A topic with partitions is listed even if they have no leader yet.
        if code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
            continue;
        } else if code != ErrorCode::NONE && topic.partitions.is_empty() {
            let error = Error::server(code, format!("topic {name}"));
            // The request is repeated: another response may have the topic.
            if error.retriable() {
                return Err(error);
            }
            topics.push((name, Err(error)));
            continue;
        }
        let listing = TopicListing {
            name: name.clone(),
            topic_id: topic.topic_id,
            partitions: topic.partitions.len(),
            internal: topic.is_internal,
        };
        topics.push((name, Ok(listing)));
    }
    topics.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(topics)
}
