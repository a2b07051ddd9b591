//! Operations on topics: create and list topics, add partitions, and delete records.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::create_partitions::{CreatePartitionsAssignment, CreatePartitionsTopic};
use samsarrow_wire::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreatableTopicResult,
};
use samsarrow_wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use samsarrow_wire::messages::metadata::MetadataRequestTopic;
use samsarrow_wire::messages::{
    ApiKey, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteRecordsRequest, DeleteRecordsResponse, MetadataRequest, MetadataResponse, Uuid,
};
use tokio::time::Instant;

use super::Admin;
use super::batch::{BatchedRequest, Route};
use super::engine::RequestBatch;
use super::response_errors::check;
use crate::config::IsolationLevel;
use crate::error::{Error, Result};
use crate::offsets::{ListTarget, by_topic};
use crate::types::TopicPartition;

/// First version of CreateTopics that supports the broker's default numbers of partitions and replicas (KIP-464).
const CREATE_DEFAULTS: i16 = 4;

/// Offset that stands for the high watermark in DeleteRecords.
const HIGH_WATERMARK: i64 = -1;

/// Topic to create.
#[derive(Debug, Clone, Default)]
pub struct NewTopic {
    /// Topic name.
    pub name: String,
    /// Number of partitions; −1 for the broker's default.
    pub num_partitions: i32,
    /// Replication factor; −1 for the broker's default.
    pub replication_factor: i16,
    /// Broker ids of the replicas of each partition. If it is not empty, both numbers above must be −1.
    pub assignment: Vec<Vec<i32>>,
    /// Topic configs.
    pub configs: Vec<(String, String)>,
}

/// Result of the creation of a topic, or of its validation. Brokers before 2.4 do not report the numbers.
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
    /// Topic name.
    Name(String),
    /// Topic id. Ids are never reused (KIP-516).
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

/// New number of partitions for a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPartitions {
    /// Total number of partitions, including the existing ones.
    pub count: i32,
    /// Broker ids of the replicas of each new partition; `None` if the controller should assign them.
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

/// Result for each topic, in the order of the request.
pub type PerTopic<T> = Vec<(String, Result<T>)>;

fn controller_request(timeout: Duration) -> BatchedRequest<String> {
    BatchedRequest { describe: |name| format!("topic {name}"), ..BatchedRequest::new(Route::Controller, timeout) }
}

impl Admin {
    /// Creates topics, or only validates the requests. Returns a result for each topic.
    ///
    /// # Errors
    /// Fails if a name occurs twice, if an error concerns the whole request, or if no controller responds within
    /// `timeout`. Errors of individual topics are returned in the list.
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
                         this broker is older (CreateTopics v{}): pass both numbers",
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

    /// Adds partitions to topics, or only validates the requests. Returns a result for each topic.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout if no controller responds.
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

    /// Deletes the records of each partition before the given offset. Offset −1 stands for the high watermark. Returns
    /// the new low watermark of each partition.
    ///
    /// The high watermark is looked up once, because a repeated request with −1 would delete records that were written
    /// after the first request.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout if no leader responds. Errors of
    /// individual partitions are returned in the list.
    pub async fn delete_records(
        &self,
        before: &BTreeMap<TopicPartition, i64>,
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Result<i64>)>> {
        if let Some((tp, offset)) = before.iter().find(|(_, offset)| **offset < HIGH_WATERMARK) {
            return Err(Error::configuration(format!(
                "cannot delete the records of {tp} before offset {offset}: offsets start at 0, and -1 is the end"
            )));
        }
        let started = Instant::now();
        let ends = before.iter().filter(|(_, offset)| **offset == HIGH_WATERMARK);
        let ends: Vec<_> = ends.map(|(tp, _)| (tp.clone(), ListTarget::Latest)).collect();
        let mut offsets: BTreeMap<TopicPartition, i64> =
            before.iter().filter(|(_, offset)| **offset >= 0).map(|(tp, offset)| (tp.clone(), *offset)).collect();
        let mut results = BTreeMap::new();
        let found = match ends.is_empty() {
            true => Vec::new(),
            false => self.list_offsets(&ends, IsolationLevel::ReadUncommitted, timeout).await?,
        };
        for (tp, end) in found {
            match end {
                Ok(end) => drop(offsets.insert(tp, end.map_or(0, |end| end.offset))),
                Err(error) => drop(results.insert(tp, Err(error))),
            }
        }
        let left = timeout.saturating_sub(started.elapsed());
        results.extend(self.delete_records_before(&offsets, left).await?);
        Ok(results.into_iter().collect())
    }

    async fn delete_records_before(
        &self,
        before: &BTreeMap<TopicPartition, i64>,
        timeout: Duration,
    ) -> Result<Vec<(TopicPartition, Result<i64>)>> {
        let key = ApiKey::DeleteRecords;
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

    /// Lists all topics or, if `names` is given, the topics in `names` that exist. The list is sorted by name.
    ///
    /// # Errors
    /// Fails if no broker responds within `timeout`, or if a broker returns an error for one of the names.
    pub async fn list_topics(&self, names: Option<&[String]>, timeout: Duration) -> Result<Vec<TopicListing>> {
        self.find_topics(names, timeout).await?.into_iter().map(|(_, topic)| topic).collect()
    }

    /// Like [`list_topics`](Self::list_topics), but returns the error of each name that a broker rejects instead of
    /// failing.
    ///
    /// # Errors
    /// Fails if no broker responds within `timeout`.
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

/// Returns a request for the topics in `names`, or for all topics if it is `None`.
pub(super) fn metadata_request(version: i16, names: Option<&[String]>) -> MetadataRequest {
    let named = |name: &String| MetadataRequestTopic { name: Some(name.clone()), ..Default::default() };
    // A null list requests all topics. In version 0, an empty list does.
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

/// Returns the topics of a response, with an error for each name that the broker rejects. Missing topics are left out.
pub(super) fn listings(response: MetadataResponse) -> Result<Vec<(String, Result<TopicListing>)>> {
    let mut topics = Vec::with_capacity(response.topics.len());
    for topic in response.topics {
        let (name, code) = (topic.name.unwrap_or_default(), ErrorCode::from_i16(topic.error_code));
        // A topic that has partitions is listed even if they have no leader yet.
        if code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
            continue;
        } else if code != ErrorCode::NONE && topic.partitions.is_empty() {
            let error = Error::server(code, format!("topic {name}"));
            // The whole request is retried, because another broker may return the topic.
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
