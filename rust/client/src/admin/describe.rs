//! Description of topics and partitions, in pages if brokers support it (KIP-966).

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::describe_topic_partitions::{Cursor, TopicRequest};
use samsarrow_wire::messages::metadata::{MetadataRequestTopic, MetadataResponseTopic};
use samsarrow_wire::messages::{
    ApiKey, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, MetadataRequest, MetadataResponse, Uuid,
};
use tokio::time::Instant;

use super::authorized_operations::operations;
use super::batch::{BatchedRequest, Route};
use super::engine::RequestBatch;
use super::response_errors::check_item;
use super::topics::TopicRef;
use super::{AclOperation, Admin};
use crate::error::{Error, Result};

/// First version of Metadata that accepts topic ids.
const IDS: i16 = 12;

/// Description of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDescription {
    /// Topic name.
    pub name: String,
    /// Topic id, zero if brokers do not report ids.
    pub topic_id: Uuid,
    /// True for Kafka's internal topics.
    pub internal: bool,
    /// Partitions, sorted by number.
    pub partitions: Vec<PartitionDescription>,
    /// Authorized operations on the topic, if requested.
    pub operations: Option<Vec<AclOperation>>,
}

/// Description of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionDescription {
    /// Partition number.
    pub partition: i32,
    /// Broker id of the leader; `None` if there is none.
    pub leader: Option<i32>,
    /// Leader epoch, which increases with each election; `None` if the broker does not report it.
    pub leader_epoch: Option<i32>,
    /// Broker ids of the replicas, starting with the preferred leader.
    pub replicas: Vec<i32>,
    /// Broker ids of the in-sync replicas.
    pub isr: Vec<i32>,
    /// Broker ids of the offline replicas.
    pub offline: Vec<i32>,
    /// Broker ids of the eligible leader replicas (ELR); `None` if the broker does not report them.
    pub eligible: Option<Vec<i32>>,
    /// Broker ids of the last known ELR; `None` if the broker does not report them.
    pub last_eligible: Option<Vec<i32>>,
}

type Described = Vec<(TopicRef, Result<TopicDescription>)>;

impl Admin {
    /// Describes topics by name or id, in pages of up to `page` partitions, and returns a result for each topic. With
    /// `operations`, the descriptions contain the authorized operations.
    ///
    /// # Errors
    /// Fails if `page` is less than 1, if an error concerns the whole request, or if no attempt succeeds within
    /// `timeout`. Errors of individual topics are returned in the list.
    pub async fn describe_topics(
        &self,
        topics: &[TopicRef],
        page: i32,
        operations: bool,
        timeout: Duration,
    ) -> Result<Described> {
        if page < 1 {
            return Err(Error::configuration(format!("a page of {page} partitions: it must have at least 1")));
        }
        let deadline = Instant::now() + timeout;
        let names = topics.iter().filter_map(|topic| match topic {
            TopicRef::Name(name) => Some(name.clone()),
            TopicRef::Id(_) => None,
        });
        let names: Vec<String> = names.collect();
        let mut done: BTreeMap<TopicRef, Result<TopicDescription>> = BTreeMap::new();
        if !names.is_empty() {
            match self.describe_in_pages(&names, page, operations, timeout).await {
                Ok(described) => done.extend(described.into_iter().map(|(name, topic)| (TopicRef::Name(name), topic))),
                // Brokers before 3.8 and clusters with ZooKeeper do not support DescribeTopicPartitions, so Metadata is
                // used.
                Err(Error::UnsupportedVersion(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let rest: Vec<TopicRef> = topics.iter().filter(|topic| !done.contains_key(*topic)).cloned().collect();
        let remaining = deadline.saturating_duration_since(Instant::now());
        done.extend(self.describe_with_metadata(&rest, operations, remaining).await?);
        Ok(topics.iter().filter_map(|topic| done.remove_entry(topic)).collect())
    }

    async fn describe_in_pages(
        &self,
        names: &[String],
        page: i32,
        include_operations: bool,
        timeout: Duration,
    ) -> Result<BTreeMap<String, Result<TopicDescription>>> {
        let key = ApiKey::DescribeTopicPartitions;
        let deadline = Instant::now() + timeout;
        let mut described: BTreeMap<String, Result<TopicDescription>> = BTreeMap::new();
        let mut cursor: Option<Cursor> = None;
        // The cursor requires the topics to be sorted.
        let mut open: Vec<&String> = names.iter().collect();
        open.sort();
        open.dedup();
        loop {
            let build = |_: &RequestBatch<'_, ()>| {
                let topic = |name: &&String| TopicRequest { name: (*name).clone(), ..Default::default() };
                Ok(DescribeTopicPartitionsRequest {
                    topics: open.iter().map(topic).collect(),
                    response_partition_limit: page,
                    cursor: cursor.clone(),
                    ..Default::default()
                })
            };
            let remaining = deadline.saturating_duration_since(Instant::now());
            let read = |response: DescribeTopicPartitionsResponse| Ok(response);
            let response = self.send_single(Route::Any, remaining, build, read).await?;
            for topic in response.topics {
                let name = topic.name.unwrap_or_default();
                if let Err(error) = check_item(key, format!("topic {name}"), topic.error_code, None) {
                    described.insert(name, Err(error));
                    continue;
                }
                let partitions = topic.partitions.into_iter().map(|p| PartitionDescription {
                    partition: p.partition_index,
                    leader: Some(p.leader_id).filter(|id| *id >= 0),
                    leader_epoch: Some(p.leader_epoch).filter(|epoch| *epoch >= 0),
                    replicas: p.replica_nodes,
                    isr: p.isr_nodes,
                    offline: p.offline_replicas,
                    eligible: p.eligible_leader_replicas,
                    last_eligible: p.last_known_elr,
                });
                let entry = described.entry(name.clone()).or_insert_with(|| {
                    Ok(TopicDescription {
                        name,
                        topic_id: topic.topic_id,
                        internal: topic.is_internal,
                        partitions: Vec::new(),
                        // Brokers always return the operations, so they are removed if they were not requested.
                        operations: operations(topic.topic_authorized_operations).filter(|_| include_operations),
                    })
                });
                if let Ok(known) = entry {
                    known.partitions.extend(partitions);
                }
            }
            let Some(next) = response.next_cursor else { break };
            let position = |cursor: &Cursor| (cursor.topic_name.clone(), cursor.partition_index);
            if cursor.as_ref().is_some_and(|before| position(&next) <= position(before)) {
                return Err(Error::protocol("a broker", "the pages of DescribeTopicPartitions do not come to an end"));
            }
            open.retain(|name| **name >= next.topic_name);
            cursor = Some(next);
        }
        for topic in described.values_mut().flatten() {
            topic.partitions.sort_by_key(|p| p.partition);
            topic.partitions.dedup_by_key(|p| p.partition);
        }
        Ok(described)
    }

    /// Describes topics with Metadata requests.
    async fn describe_with_metadata(
        &self,
        topics: &[TopicRef],
        operations: bool,
        timeout: Duration,
    ) -> Result<Described> {
        let build = |batch: &RequestBatch<'_, TopicRef>| {
            let request_topic = |topic: &TopicRef| match topic {
                TopicRef::Name(name) => Ok(MetadataRequestTopic { name: Some(name.clone()), ..Default::default() }),
                TopicRef::Id(id) if batch.version >= IDS => {
                    Ok(MetadataRequestTopic { topic_id: Uuid(*id), ..Default::default() })
                }
                TopicRef::Id(_) => Err(Error::UnsupportedVersion(format!(
                    "{topic}: to describe by id needs Kafka 3.1 or later, and this broker is older (Metadata v{}): name \
                     the topic",
                    batch.version
                ))),
            };
            let topics = Some(batch.items.iter().map(request_topic).collect::<Result<_>>()?);
            Ok(MetadataRequest {
                topics,
                allow_auto_topic_creation: batch.version < 4,
                include_topic_authorized_operations: operations,
                ..Default::default()
            })
        };
        let read = |batch: &RequestBatch<'_, TopicRef>, response: MetadataResponse| {
            Ok(response.topics.into_iter().map(|topic| from_metadata(batch.items, topic)).collect())
        };
        let request = BatchedRequest::new(Route::Any, timeout);
        self.send_batched(&request, topics, build, read).await
    }
}

fn from_metadata(requested: &[TopicRef], topic: MetadataResponseTopic) -> (TopicRef, Result<TopicDescription>) {
    let id = TopicRef::Id(topic.topic_id.0);
    let name = topic.name.unwrap_or_default();
    let item = if requested.contains(&id) { id } else { TopicRef::Name(name.clone()) };
    // A topic that has partitions is described even if they have no leader yet.
    let code = match topic.partitions.is_empty() {
        true => topic.error_code,
        false => ErrorCode::NONE.code(),
    };
    let result = check_item(ApiKey::Metadata, &item, code, None);
    let description = result.map(|()| {
        let partitions = topic.partitions.into_iter().map(|p| PartitionDescription {
            partition: p.partition_index,
            leader: Some(p.leader_id).filter(|id| *id >= 0),
            leader_epoch: Some(p.leader_epoch).filter(|epoch| *epoch >= 0),
            replicas: p.replica_nodes,
            isr: p.isr_nodes,
            offline: p.offline_replicas,
            eligible: None,
            last_eligible: None,
        });
        let mut partitions: Vec<_> = partitions.collect();
        partitions.sort_by_key(|p: &PartitionDescription| p.partition);
        TopicDescription {
            name,
            topic_id: topic.topic_id,
            internal: topic.is_internal,
            partitions,
            operations: operations(topic.topic_authorized_operations),
        }
    });
    (item, description)
}
