//! Topics with their partitions, page by page where brokers have pages (KIP-966).

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
use super::batch::{Route, Work};
use super::engine::Asked;
use super::response_errors::check_of;
use super::topics::TopicRef;
use super::{AclOperation, Admin};
use crate::error::{Error, Result};

/// From this version on topics can be asked for by id.
const IDS: i16 = 12;

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDescription {
    /// Its name.
    pub name: String,
    /// Its id, zero where brokers have none.
    pub topic_id: Uuid,
    /// Whether Kafka keeps it for itself.
    pub internal: bool,
    /// In the order of their numbers.
    pub partitions: Vec<PartitionDescription>,
    /// What may be done with it, where that was asked for.
    pub operations: Option<Vec<AclOperation>>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionDescription {
    /// Its number.
    pub partition: i32,
    /// Who leads it.
    pub leader: Option<i32>,
    /// Rises with each election; `None` where the broker does not report it.
    pub leader_epoch: Option<i32>,
    /// Who has it, the preferred leader first.
    pub replicas: Vec<i32>,
    /// Who has all of it.
    pub isr: Vec<i32>,
    /// Who has it and cannot be reached.
    pub offline: Vec<i32>,
    /// Who may lead though not in sync; `None` where the broker does not report them.
    pub eligible: Option<Vec<i32>>,
    /// Who could lead last; `None` where the broker does not report them.
    pub last_eligible: Option<Vec<i32>>,
}

type Described = Vec<(TopicRef, Result<TopicDescription>)>;

impl Admin {
    /// Topics by name or id, in pages of at most `page` partitions, with `operations` what may be done with them; each
    /// topic has its own outcome.
    ///
    /// # Errors
    /// What is not about one topic; a timeout with its cause.
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
            match self.pages(&names, page, operations, timeout).await {
                Ok(found) => done.extend(found.into_iter().map(|(name, found)| (TopicRef::Name(name), found))),
                // Brokers before 3.8, and those with ZooKeeper.
                Err(Error::UnsupportedVersion(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let rest: Vec<TopicRef> = topics.iter().filter(|topic| !done.contains_key(*topic)).cloned().collect();
        let left = deadline.saturating_duration_since(Instant::now());
        done.extend(self.at_once(&rest, operations, left).await?);
        Ok(topics.iter().filter_map(|topic| done.remove_entry(topic)).collect())
    }

    async fn pages(
        &self,
        names: &[String],
        page: i32,
        wants_operations: bool,
        timeout: Duration,
    ) -> Result<BTreeMap<String, Result<TopicDescription>>> {
        let key = ApiKey::DescribeTopicPartitions;
        let deadline = Instant::now() + timeout;
        let mut found: BTreeMap<String, Result<TopicDescription>> = BTreeMap::new();
        let mut cursor: Option<Cursor> = None;
        // Brokers want them sorted where a page goes on.
        let mut open: Vec<&String> = names.iter().collect();
        open.sort();
        open.dedup();
        loop {
            let build = |_: &Asked<'_, ()>| {
                let topic = |name: &&String| TopicRequest { name: (*name).clone(), ..Default::default() };
                Ok(DescribeTopicPartitionsRequest {
                    topics: open.iter().map(topic).collect(),
                    response_partition_limit: page,
                    cursor: cursor.clone(),
                    ..Default::default()
                })
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let read = |response: DescribeTopicPartitionsResponse| Ok(response);
            let answer = self.ask(Route::Any, left, build, read).await?;
            for topic in answer.topics {
                let name = topic.name.unwrap_or_default();
                if let Err(error) = check_of(key, format!("topic {name}"), topic.error_code, None) {
                    found.insert(name, Err(error));
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
                let entry = found.entry(name.clone()).or_insert_with(|| {
                    Ok(TopicDescription {
                        name,
                        topic_id: topic.topic_id,
                        internal: topic.is_internal,
                        partitions: Vec::new(),
                        // These come whether anybody asks or not.
                        operations: operations(topic.topic_authorized_operations).filter(|_| wants_operations),
                    })
                });
                if let Ok(known) = entry {
                    known.partitions.extend(partitions);
                }
            }
            let Some(next) = answer.next_cursor else { break };
            let at = |cursor: &Cursor| (cursor.topic_name.clone(), cursor.partition_index);
            if cursor.as_ref().is_some_and(|before| at(&next) <= at(before)) {
                return Err(Error::protocol("a broker", "the pages of DescribeTopicPartitions do not come to an end"));
            }
            open.retain(|name| **name >= next.topic_name);
            cursor = Some(next);
        }
        for topic in found.values_mut().flatten() {
            topic.partitions.sort_by_key(|p| p.partition);
            topic.partitions.dedup_by_key(|p| p.partition);
        }
        Ok(found)
    }

    /// The same from metadata.
    async fn at_once(&self, topics: &[TopicRef], operations: bool, timeout: Duration) -> Result<Described> {
        let build = |asked: &Asked<'_, TopicRef>| {
            let one = |topic: &TopicRef| match topic {
                TopicRef::Name(name) => Ok(MetadataRequestTopic { name: Some(name.clone()), ..Default::default() }),
                TopicRef::Id(id) if asked.version >= IDS => {
                    Ok(MetadataRequestTopic { topic_id: Uuid(*id), ..Default::default() })
                }
                TopicRef::Id(_) => Err(Error::UnsupportedVersion(format!(
                    "{topic}: to describe by id needs Kafka 3.1 or later, and this broker is older (Metadata v{}): name \
                     the topic",
                    asked.version
                ))),
            };
            let topics = Some(asked.items.iter().map(one).collect::<Result<_>>()?);
            Ok(MetadataRequest {
                topics,
                allow_auto_topic_creation: asked.version < 4,
                include_topic_authorized_operations: operations,
                ..Default::default()
            })
        };
        let read = |asked: &Asked<'_, TopicRef>, response: MetadataResponse| {
            Ok(response.topics.into_iter().map(|topic| from_metadata(asked.items, topic)).collect())
        };
        let work = Work::new(Route::Any, timeout);
        self.settle(&work, topics, build, read).await
    }
}

fn from_metadata(asked: &[TopicRef], topic: MetadataResponseTopic) -> (TopicRef, Result<TopicDescription>) {
    let id = TopicRef::Id(topic.topic_id.0);
    let name = topic.name.unwrap_or_default();
    let item = if asked.contains(&id) { id } else { TopicRef::Name(name.clone()) };
    // Without a leader yet, a topic has its partitions all the same.
    let code = match topic.partitions.is_empty() {
        true => topic.error_code,
        false => ErrorCode::NONE.code(),
    };
    let said = check_of(ApiKey::Metadata, &item, code, None);
    let found = said.map(|()| {
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
    (item, found)
}
