//! Topics: created, deleted, listed, described; more partitions for them, fewer records.

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
use super::batch::{Route, Work};
use super::engine::Asked;
use super::response_errors::check;
use crate::error::{Error, Result};
use crate::offsets::by_topic;
use crate::types::TopicPartition;

/// From this version on, a broker has its own numbers of partitions and replicas for new topics (KIP-464).
const CREATE_DEFAULTS: i16 = 4;
/// From this version on, topics to delete are a list of structs with names or ids (KIP-516).
const DELETE_STRUCTS: i16 = 6;

/// A topic to create.
#[derive(Debug, Clone, Default)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// −1 takes the broker's default.
    pub num_partitions: i32,
    /// −1 takes the broker's default.
    pub replication_factor: i16,
    /// The brokers of each partition; then both numbers are −1.
    pub assignment: Vec<Vec<i32>>,
    /// Settings of the topic.
    pub configs: Vec<(String, String)>,
}

/// A topic that was created, or could be. Brokers before 2.4 say nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its id, zero where brokers have none.
    pub topic_id: Uuid,
    /// How many partitions it has, −1 where the broker does not report it.
    pub num_partitions: i32,
    /// How many replicas each has, −1 where the broker does not report it.
    pub replication_factor: i16,
}

/// A topic by its name or its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicRef {
    /// By name.
    Name(String),
    /// By id, which no other topic ever has (KIP-516).
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

/// How many partitions a topic is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPartitions {
    /// With those that it has.
    pub count: i32,
    /// The brokers of each new partition; `None` leaves that to the controller.
    pub assignment: Option<Vec<Vec<i32>>>,
}

/// A topic that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicListing {
    /// Its name.
    pub name: String,
    /// Its id, zero where brokers have none.
    pub topic_id: Uuid,
    /// How many partitions it has.
    pub partitions: usize,
    /// Whether Kafka keeps it for itself.
    pub internal: bool,
}

/// What became of each topic, in the order of the request.
pub type PerTopic<T> = Vec<(String, Result<T>)>;

fn topics(timeout: Duration) -> Work<String> {
    Work { what: |name| format!("topic {name}"), ..Work::new(Route::Controller, timeout) }
}

impl Admin {
    /// Creates topics, or only checks that they could be; each has its own outcome.
    ///
    /// # Errors
    /// When no controller can be asked within `timeout`.
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
        let build = |asked: &Asked<'_, String>| {
            let topics = asked.items.iter().filter_map(|name| by_name.get(name)).map(|topic| {
                let defaults = topic.num_partitions < 0 || topic.replication_factor < 0;
                if asked.version < CREATE_DEFAULTS && defaults && topic.assignment.is_empty() {
                    return Err(Error::UnsupportedVersion(format!(
                        "topic {}: the broker's own number of partitions and replicas (-1) needs Kafka 2.4 or later, and \
                         this broker is older (CreateTopics v{}): give both numbers",
                        topic.name, asked.version
                    )));
                }
                Ok(creatable(topic))
            });
            let topics = topics.collect::<Result<_>>()?;
            Ok(CreateTopicsRequest { topics, timeout_ms: asked.timeout_ms, validate_only, ..Default::default() })
        };
        let read = |_: &Asked<'_, String>, response: CreateTopicsResponse| {
            let one = |t: CreatableTopicResult| {
                let asked = format!("{} of topic {}", key.name(), t.name);
                let created = check(t.error_code, t.error_message.as_deref(), &asked, key).map(|()| CreatedTopic {
                    topic_id: t.topic_id,
                    num_partitions: t.num_partitions,
                    replication_factor: t.replication_factor,
                });
                (t.name, created)
            };
            Ok(response.topics.into_iter().map(one).collect())
        };
        self.settle(&topics(timeout), &names, build, read).await
    }

    /// Deletes topics; each has its own outcome.
    ///
    /// # Errors
    /// When no controller can be asked within `timeout`.
    pub async fn delete_topics(&self, topics: &[TopicRef], timeout: Duration) -> Result<Vec<(TopicRef, Result<()>)>> {
        let key = ApiKey::DeleteTopics;
        let build = |asked: &Asked<'_, TopicRef>| {
            let mut request = DeleteTopicsRequest { timeout_ms: asked.timeout_ms, ..Default::default() };
            for topic in asked.items {
                match topic {
                    TopicRef::Name(name) if asked.version < DELETE_STRUCTS => request.topic_names.push(name.clone()),
                    TopicRef::Name(name) => {
                        request.topics.push(DeleteTopicState { name: Some(name.clone()), ..Default::default() });
                    }
                    TopicRef::Id(_) if asked.version < DELETE_STRUCTS => {
                        return Err(Error::UnsupportedVersion(format!(
                            "{topic}: to delete by id needs Kafka 2.8 or later, and this broker is older (DeleteTopics \
                             v{}): name the topic",
                            asked.version
                        )));
                    }
                    TopicRef::Id(id) => {
                        request.topics.push(DeleteTopicState { topic_id: Uuid(*id), ..Default::default() });
                    }
                }
            }
            Ok(request)
        };
        let read = |asked: &Asked<'_, TopicRef>, response: DeleteTopicsResponse| {
            let mut said = Vec::new();
            for t in response.responses {
                // Answers to ids have names as well, where the topic was there.
                let id = TopicRef::Id(t.topic_id.0);
                let topic = match t.name {
                    Some(name) if !asked.items.contains(&id) => TopicRef::Name(name),
                    _ => id,
                };
                let text = format!("{} of {topic}", key.name());
                said.push((topic, check(t.error_code, t.error_message.as_deref(), &text, key)));
            }
            Ok(said)
        };
        self.settle(&Work::new(Route::Controller, timeout), topics, build, read).await
    }

    /// Gives topics more partitions, or only checks that they could have them; each has its own outcome.
    ///
    /// # Errors
    /// When no controller can be asked within `timeout`.
    pub async fn create_partitions(
        &self,
        wanted: &BTreeMap<String, NewPartitions>,
        validate_only: bool,
        timeout: Duration,
    ) -> Result<PerTopic<()>> {
        let key = ApiKey::CreatePartitions;
        let names: Vec<String> = wanted.keys().cloned().collect();
        let build = |asked: &Asked<'_, String>| {
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
            let topics = asked.items.iter().filter_map(|name| wanted.get_key_value(name)).map(topic).collect();
            Ok(CreatePartitionsRequest { topics, timeout_ms: asked.timeout_ms, validate_only, ..Default::default() })
        };
        let read = |_: &Asked<'_, String>, response: CreatePartitionsResponse| {
            let one = |t: samsarrow_wire::messages::create_partitions::CreatePartitionsTopicResult| {
                let asked = format!("{} of topic {}", key.name(), t.name);
                let said = check(t.error_code, t.error_message.as_deref(), &asked, key);
                (t.name, said)
            };
            Ok(response.results.into_iter().map(one).collect())
        };
        self.settle(&topics(timeout), &names, build, read).await
    }

    /// Deletes the records before an offset of each partition; −1 stands for its high watermark. Gives where each starts
    /// now.
    ///
    /// # Errors
    /// What is not about one partition; a timeout with its cause where no leader answered.
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
        let build = |asked: &Asked<'_, TopicPartition>| {
            let partition =
                |(partition_index, offset)| DeleteRecordsPartition { partition_index, offset, ..Default::default() };
            let offsets = asked.items.iter().filter_map(|tp| Some((tp.clone(), *before.get(tp)?)));
            let topics = by_topic(offsets).into_iter().map(|(name, its)| DeleteRecordsTopic {
                name: name.to_string(),
                partitions: its.into_iter().map(partition).collect(),
                ..Default::default()
            });
            Ok(DeleteRecordsRequest { topics: topics.collect(), timeout_ms: asked.timeout_ms, ..Default::default() })
        };
        let read = |_: &Asked<'_, TopicPartition>, response: DeleteRecordsResponse| {
            let mut said = Vec::new();
            for topic in response.topics {
                for p in topic.partitions {
                    let tp = TopicPartition::new(&*topic.name, p.partition_index);
                    let outcome = check(p.error_code, None, &format!("{} of {tp}", key.name()), key);
                    said.push((tp, outcome.map(|()| p.low_watermark)));
                }
            }
            Ok(said)
        };
        self.settle(&Work::new(Route::Leader(|tp| tp), timeout), &partitions, build, read).await
    }

    /// All topics, or those of `names` that exist, in the order of their names.
    ///
    /// # Errors
    /// No broker responds within `timeout`, or brokers reject one of the names.
    pub async fn list_topics(&self, names: Option<&[String]>, timeout: Duration) -> Result<Vec<TopicListing>> {
        self.find_topics(names, timeout).await?.into_iter().map(|(_, topic)| topic).collect()
    }

    /// All topics, or those of `names` that exist, in the order of their names, and an error for each name that brokers
    /// reject.
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
        let build = |asked: &Asked<'_, ()>| Ok(metadata_request(asked.version, names));
        self.ask(Route::Any, timeout, build, listings).await
    }
}

/// A request for topics by name, or for all.
pub(super) fn metadata_request(version: i16, names: Option<&[String]>) -> MetadataRequest {
    let named = |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
    // No list asks for all topics; version 0 said so with an empty one.
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

/// Returns the topics of a response; one that does not exist is left out.
fn listings(response: MetadataResponse) -> Result<Vec<(String, Result<TopicListing>)>> {
    let mut topics = Vec::with_capacity(response.topics.len());
    for topic in response.topics {
        let (name, code) = (topic.name.unwrap_or_default(), ErrorCode::from_i16(topic.error_code));
        // Without a leader yet, a topic has its partitions all the same.
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
