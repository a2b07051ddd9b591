//! Deletion of topics by id, so that a request that is repeated or arrives late deletes no other topic (KIP-516).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::delete_topics::DeleteTopicState;
use samsarrow_wire::messages::{ApiKey, DeleteTopicsRequest, DeleteTopicsResponse, Uuid};

use super::Admin;
use super::batch::{BatchedRequest, Route};
use super::engine::{Outcome, RequestBatch};
use super::response_errors::check;
use super::topics::{TopicRef, listings, metadata_request};
use crate::error::{Error, Result};
use crate::retry::Retry;

/// First version of DeleteTopics that supports topic ids (KIP-516).
const FIRST_WITH_IDS: i16 = 6;
/// First version of Metadata that returns topic ids.
const FIRST_METADATA_WITH_IDS: i16 = 10;

/// Topic to delete, and its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Deletion {
    topic: TopicRef,
    /// Id of a topic that is referred to by id or that brokers know by its name; `None` before Kafka 2.8 and for other
    /// names.
    id: Option<[u8; 16]>,
}

impl fmt::Display for Deletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.topic.fmt(f)
    }
}

impl Deletion {
    /// Returns true if a response entry with this id and name is about this topic.
    fn matches(&self, id: [u8; 16], name: Option<&str>) -> bool {
        match (&self.topic, self.id) {
            (_, Some(own)) if own == id => true,
            // Before version 6, responses have names only.
            (TopicRef::Name(own), _) => name == Some(own),
            (TopicRef::Id(_), _) => false,
        }
    }
}

fn build(batch: &RequestBatch<'_, Deletion>) -> Result<DeleteTopicsRequest> {
    let mut request = DeleteTopicsRequest { timeout_ms: batch.timeout_ms, ..Default::default() };
    let mut ids = BTreeSet::new();
    for Deletion { topic, id } in batch.items {
        match (topic, id) {
            (TopicRef::Name(name), _) if batch.version < FIRST_WITH_IDS => request.topic_names.push(name.clone()),
            (TopicRef::Id(_), _) if batch.version < FIRST_WITH_IDS => {
                return Err(Error::UnsupportedVersion(format!(
                    "{topic}: to delete by id needs Kafka 2.8 or later, and this broker is older (DeleteTopics v{}): \
                     name the topic",
                    batch.version
                )));
            }
            // Brokers reject a request that has an id twice.
            (_, Some(id)) if !ids.insert(*id) => {}
            (_, Some(id)) => request.topics.push(DeleteTopicState { topic_id: Uuid(*id), ..Default::default() }),
            (TopicRef::Name(name), None) => {
                request.topics.push(DeleteTopicState { name: Some(name.clone()), ..Default::default() });
            }
            (TopicRef::Id(id), None) => {
                request.topics.push(DeleteTopicState { topic_id: Uuid(*id), ..Default::default() });
            }
        }
    }
    Ok(request)
}

fn read(batch: &RequestBatch<'_, Deletion>, response: DeleteTopicsResponse) -> Vec<(Deletion, Result<()>)> {
    let key = ApiKey::DeleteTopics;
    let mut results = Vec::new();
    for t in response.responses {
        for item in batch.items.iter().filter(|item| item.matches(t.topic_id.0, t.name.as_deref())) {
            let context = format!("{} of {item}", key.name());
            results.push((item.clone(), check(t.error_code, t.error_message.as_deref(), &context, key)));
        }
    }
    results
}

impl Admin {
    /// Deletes topics. Returns a result for each topic.
    ///
    /// A name stands for the topic that has it during the call: its id is looked up, and the topic is deleted by id. A
    /// repeated request that finds no topic with this id has succeeded. Unknown names, and all names
    /// before Kafka 2.8, are sent as names.
    ///
    /// # Errors
    /// Fails with an error that concerns the whole request, or with a timeout if no controller responds.
    pub async fn delete_topics(&self, topics: &[TopicRef], timeout: Duration) -> Result<Vec<(TopicRef, Result<()>)>> {
        self.cluster.check_endpoint(ApiKey::DeleteTopics)?;
        let mut retry = Retry::new(self.cluster.options(), timeout);
        let mut done: BTreeMap<TopicRef, Result<()>> = BTreeMap::new();
        loop {
            let open: BTreeSet<&TopicRef> = topics.iter().filter(|topic| !done.contains_key(topic)).collect();
            let items = self.with_ids(open, retry.left()).await?;
            let request = BatchedRequest::new(Route::Controller, retry.left());
            let read = |batch: &RequestBatch<'_, Deletion>, response| Ok(read(batch, response));
            let outcomes = self.send_tracked(&self.cluster, &request, &items, build, read).await?;
            let mut renamed = BTreeMap::new();
            for Outcome { item, result, repeated } in outcomes {
                let is_name = matches!(item.topic, TopicRef::Name(_));
                match result {
                    Err(error) if is_name && error.code() == Some(ErrorCode::UNKNOWN_TOPIC_ID.code()) => {
                        if repeated {
                            done.insert(item.topic, Ok(()));
                        } else {
                            // The id was that of an earlier topic with this name, or another client has deleted it.
                            renamed.insert(item.topic, error);
                        }
                    }
                    result => drop(done.insert(item.topic, result)),
                }
            }
            let Some((topic, error)) = renamed.first_key_value() else { break };
            let context = || format!("{} of {topic}", ApiKey::DeleteTopics.name());
            if let Err(late) = retry.wait(error.clone(), context).await {
                done.extend(renamed.into_keys().map(|topic| (topic, Err(late.clone()))));
                break;
            }
        }
        Ok(topics.iter().filter_map(|topic| Some((topic.clone(), done.get(topic)?.clone()))).collect())
    }

    /// Looks up the ids of topics.
    ///
    /// # Errors
    /// Fails if no broker responds within `timeout`.
    async fn with_ids(&self, topics: BTreeSet<&TopicRef>, timeout: Duration) -> Result<Vec<Deletion>> {
        let names: Vec<String> = topics
            .iter()
            .filter_map(|topic| match topic {
                TopicRef::Name(name) => Some(name.clone()),
                TopicRef::Id(_) => None,
            })
            .collect();
        let build = |batch: &RequestBatch<'_, ()>| {
            // Earlier versions have no ids, and before version 4 brokers may create the topics.
            let names = if batch.version < FIRST_METADATA_WITH_IDS { &[] } else { &*names };
            Ok(metadata_request(batch.version, Some(names)))
        };
        let found = match names.is_empty() {
            true => Vec::new(),
            false => self.send_single(Route::Any, timeout, build, listings).await?,
        };
        let known = found.into_iter().filter_map(|(name, topic)| Some((name, topic.ok()?.topic_id.0)));
        let known: BTreeMap<String, [u8; 16]> = known.filter(|(_, id)| *id != [0; 16]).collect();
        let with_id = |topic: &TopicRef| {
            let id = match topic {
                TopicRef::Name(name) => known.get(name).copied(),
                TopicRef::Id(id) => Some(*id),
            };
            Deletion { topic: topic.clone(), id }
        };
        Ok(topics.into_iter().map(with_id).collect())
    }
}
